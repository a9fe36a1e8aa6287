"""What a release says of the quality of data, in numbers and in words: functions of the release alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.release.laws import NoiseLaw
from dpinfer.schema.columns import (
    CELL_CLASSES,
    DROP,
    HIGH,
    LOW,
    ROWS_KEPT,
    UNKNOWN,
    Boolean,
    Date,
    Integer,
    Real,
    cell_classes,
)
from dpinfer.schema.columns import IMPOSSIBLE_CELL as IMPOSSIBLE
from dpinfer.schema.columns import MISSING_CELL as MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.release.release import Release
    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["QUALITY", "Advice", "Quality", "advice_of"]

QUALITY = "quality"
"""Kind of the releases that are read here."""

_FALSE_ALARM = 1e-3
"""Probability of any advice at all on perfect data, for the noise."""

_LEAST_SDS = 3.0

_RELEVANT = {MISSING: 0.05, ROWS_KEPT: 0.05}
"""Shares from which something is worth a sentence; of others `_USUALLY`."""
_USUALLY = 0.01


_CODES = {LOW: (-9, -99, -999, -9999), HIGH: (999, 9999, 99_999)}
_DATE_CODES = {LOW: ("1900-01-01", "0001-01-01"), HIGH: ("9999-12-31",)}
"""Codes that surveys use for no answer, by the side on which they are clamped."""


class Advice(NamedTuple):
    """A sentence, and the columns that it is about."""

    columns: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Quality:
    """Noisy counts of cells by class, and of rows kept.

    Attributes
    ----------
    schema : Schema
        The columns that were counted.
    counts : ndarray (m,)
        In the order of the columns, of each its classes; then the rows kept.
    variance : float
        Of the noise of every count.
    limit : float
        What a count of nothing exceeds, whichever it is, with probability `_FALSE_ALARM` at most.
    public : int or None
        The number of rows where it is public.
    """

    schema: Schema
    counts: Array
    variance: float
    limit: float
    public: int | None

    @classmethod
    def read(cls, release: Release) -> Quality | None:
        """Read a release; None if it does not hold such counts."""
        schema = release.schema
        names = [f"{name}: {one}" for name, column in schema.items() for one in cell_classes(column)]
        law = release.law
        plain = law.family in ("gaussian", "laplace") and law.draws == 1 and len(set(law.scales)) == 1
        if not plain or (*names, ROWS_KEPT) != release.names:
            return None
        noise = float(release.noise_variances[0])
        tail = NoiseLaw(law.family, law.scales[:1]).quantile(1 - _FALSE_ALARM / len(names))[0] * release.steps[0]
        limit = max(float(tail), _LEAST_SDS * float(np.sqrt(noise)))
        return cls(schema, release.array, noise, limit, release.nobs)

    @cached_property
    def places(self) -> dict[tuple[str, str], int]:
        """Place of each count by column and class."""
        pairs = [(name, one) for name, column in self.schema.items() for one in cell_classes(column)]
        return {pair: place for place, pair in enumerate(pairs)}

    @property
    def kept(self) -> float:
        """Rows without a cell that drops them."""
        return float(self.counts[-1])

    @cached_property
    def rows(self) -> float:
        """Number of rows: public, or the mean over columns of the sums of their counts."""
        return float(self.public) if self.public is not None else float(self.counts[:-1].sum() / len(self.schema))

    @cached_property
    def rows_variance(self) -> float:
        """Variance of `rows`."""
        return 0.0 if self.public is not None else self.variance * (len(self.counts) - 1) / len(self.schema) ** 2

    def count(self, name: str, one: str) -> float:
        """Return the count of a class; NaN where the column has no such class."""
        place = self.places.get((name, one))
        return float("nan") if place is None else float(self.counts[place])

    def share(self, count: float) -> float:
        """Return a count as a share of the rows, within 0 and 1; NaN where the number of rows is lost in noise."""
        return float(np.clip(count / self.rows, 0.0, 1.0)) if self.rows > 0 else float("nan")

    def share_variance(self, count: float) -> float:
        """Variance of a count over the number of rows, by the delta method; infinite where this is lost in noise."""
        if self.rows <= 0:
            return float("inf")
        share, both = self.share(count), 0.0 if self.public is not None else self.variance / len(self.schema)
        return max(self.variance - 2 * share * both + share**2 * self.rows_variance, 0.0) / self.rows**2

    @property
    def lost(self) -> bool:
        """Whether noise may be all that there is of the rows: then nothing can be said of their cells."""
        return self.rows <= self.limit

    # In words

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Sentences on what is beyond noise, and matters."""
        if self.lost:
            return ()
        told = [self._of_cells(name, one) for name, one in self.places if one in CELL_CLASSES[1:]]
        return tuple(one for one in (*told, self._of_rows()) if one is not None)

    def _much(self, count: float, one: str, limit: float) -> str | None:
        """Say how many a count is of all; None where that is within its limit of noise, or little."""
        if count <= limit or count < _RELEVANT.get(one, _USUALLY) * self.rows:
            return None
        rest = self.rows - count
        return "All" if rest <= self.limit and self.share(count) > 0.9 else f"About {self.share(count):.0%} of the"

    def _of_cells(self, name: str, one: str) -> Advice | None:
        much = self._much(self.count(name, one), one, self.limit)
        if much is None:
            return None
        return Advice((name,), f"{much} cells of {name} {_fault(self.schema[name], one)}")

    def _of_rows(self) -> Advice | None:
        limit = self.limit * float(np.sqrt(1 + self.rows_variance / self.variance))  # of a difference of two
        much = self._much(self.rows - self.kept, ROWS_KEPT, limit)
        if much is None or len(self.schema) == 1:
            return None
        return Advice(tuple(self.schema), f"{much} rows are left out of a model of all {len(self.schema)} columns.")


def advice_of(release: Release) -> tuple[Advice, ...]:
    """Return what a release of quality advises; nothing of any other."""
    found = Quality.read(release) if release.kind == QUALITY else None
    return () if found is None else found.advice


def _fault(column: Column, one: str) -> str:
    """Say what is wrong with the cells of a class, what becomes of them, and what may help."""
    if one in (LOW, HIGH):
        side, bound = ("below", "lower") if one == LOW else ("above", "upper")
        end = column.describe().strip("[]").split(", ")[one == HIGH]
        return (
            f"are {side} the {bound} bound {end} and count as it: widen the bound, or declare codes "
            f"{_code(column, one)} in missing_codes=."
        )
    fate = _fate(column.missing if one == MISSING else column.impossible)
    if one == MISSING:
        return f"are missing: {fate}."
    if one == UNKNOWN:
        return (
            f"are no declared level ({column.describe()}): {fate}. Compare the levels with the codebook, letter by "
            "letter; cells that hold codes need codes=, and those of no answer missing_codes=."
        )
    assert one == IMPOSSIBLE
    bare = replace(column, missing=DROP, impossible=DROP, label="", unit="", source="")
    return f"are impossible for a column declared as {bare!r}: {fate}. {_instead(column)}"


def _code(column: Column, one: str) -> str:
    """Name a usual code of no answer that is clamped on this side, and not declared; in general terms if none is."""
    assert isinstance(column, Real)
    beyond = column.lower if one == LOW else column.upper
    for code in (_DATE_CODES if isinstance(column, Date) else _CODES)[one]:
        value = float(column.meaning(np.array([code], dtype=object))[0])
        if np.isfinite(value) and (value < beyond if one == LOW else value > beyond):
            return f"such as {code!r}"
    return "of no answer"


def _fate(policy: object) -> str:
    dropped = isinstance(policy, str) and policy == DROP
    return "their rows are left out" if dropped else f"they count as {policy!r}"


def _instead(column: Column) -> str:
    """Say what impossible cells of a column may need."""
    if isinstance(column, Boolean):
        held = "True or False, or 0 or 1" if column.true is None else "one of the declared codes"
        return f"It takes {held}; codes such as 1 and 2 need Boolean(true=1, false=2)."
    if isinstance(column, Date):
        return "It takes dates, or their texts as in 2024-01-31; plain numbers are none."
    if isinstance(column, Integer):
        return "It takes whole numbers; others need Real, dates need Date, texts such as NA missing_codes=."
    assert isinstance(column, Real)
    return "It takes numbers; dates need Date, texts such as NA missing_codes=."
