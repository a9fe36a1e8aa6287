"""What noisy counts of cells say of the quality of data, in numbers and in words, and of the bounds of columns.

Functions of releases alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.release.laws import NoiseLaw
from dpinfer.release.release import ADVICE, Advice
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
from dpinfer.schema.columns import MISSING_CELL as MISSING

if TYPE_CHECKING:
    from dpinfer.release.release import Release
    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["QUALITY", "Quality", "bounded", "occupied_from", "octave_bounds"]

# Bounds


def occupied_from(law: NoiseLaw, false_alarm: float) -> float:
    """Return the count that the noise of some empty cell exceeds with probability ``false_alarm`` at most.

    All m cells of a law have noise of one scale; the bound is Bonferroni's.
    """
    one = NoiseLaw(law.family, law.scales[:1], law.draws)
    return float(one.quantile(1 - false_alarm / len(law.scales))[0])


def octave_bounds(counts: Array, ends: Array, threshold: float, margin: int) -> Array:
    """Return the outermost occupied octaves of R releases with a margin, as bounds (R, 2).

    Parameters
    ----------
    counts : ndarray (R, k)
        Noisy counts of octaves, ascending.
    ends : ndarray (k + 1,)
        Their ends: the outer ones are declared bounds, which are never exceeded.
    threshold : float
        A count above it is occupied.
    margin : int
        Octaves that are added beyond the outermost occupied one, on each side.

    Returns
    -------
    ndarray (R, 2)
        NaN where no octave is occupied.
    """
    occupied = counts > threshold
    size = counts.shape[1]
    first = np.maximum(occupied.argmax(axis=1) - margin, 0)
    last = np.minimum(size - occupied[:, ::-1].argmax(axis=1) + margin, size)
    found = np.stack([ends[first], ends[last]], axis=1)
    return np.where(occupied.any(axis=1, keepdims=True), found, np.nan)


def bounded(column: Column, lower: float, upper: float) -> Column:
    """Return a numeric column with other bounds, which constants of policies stay within."""
    assert isinstance(column, Real)
    held = [float(one) for one in (column.missing, column.impossible) if one != DROP]
    lower, upper = min(lower, *held, lower), max(upper, *held, upper)
    if isinstance(column, Integer):
        return replace(column, lower=math.floor(lower), upper=math.ceil(upper))
    return replace(column, lower=lower, upper=upper)


# Quality

QUALITY = "quality"
"""Kind of the releases that are read here."""

_FALSE_ALARM = 1e-3
"""Probability of any advice at all on perfect data, for the noise."""

_LEAST_SDS = 3.0

_RELEVANT = {MISSING: 0.05, ROWS_KEPT: 0.05}
"""Shares from which something is worth a sentence; of others `_USUALLY`."""
_USUALLY = 0.01

_TAKES: dict[type[Column], str] = {
    Date: "dates, or their texts as in 2024-01-31; plain numbers are none",
    Integer: "whole numbers; others need Real, dates need Date, texts such as NA missing_codes=",
    Real: "numbers; dates need Date, texts such as NA missing_codes=",
}
"""What may help where cells are impossible."""

_CODES: dict[str, tuple[object, ...]] = {LOW: (-9, -99, -999, -9999), HIGH: (999, 9999, 99_999)}
_DATE_CODES: dict[str, tuple[object, ...]] = {LOW: ("1900-01-01", "0001-01-01"), HIGH: ("9999-12-31",)}
"""Codes that surveys use for no answer, by the side on which they are clamped."""


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
        schema, law = release.schema, release.law
        names = [f"{name}: {one}" for name, column in schema.items() for one in cell_classes(column)]
        plain = law.family in ("gaussian", "laplace") and law.draws == 1 and len(set(law.scales)) == 1
        if not plain or (*names, ROWS_KEPT) != release.names:
            return None
        noise = float(release.noise_variances[0])
        tail = NoiseLaw(law.family, law.scales[:1]).quantile(1 - _FALSE_ALARM / len(names))[0] * release.steps[0]
        limit = max(float(tail), _LEAST_SDS * float(np.sqrt(noise)))
        return cls(schema, release.array, noise, limit, release.nobs)

    @property
    def places(self) -> list[tuple[str, str]]:
        """Column and class of each count of cells."""
        return [(name, one) for name, column in self.schema.items() for one in cell_classes(column)]

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Counts by column and class (K, 6); NaN where a column has no such class."""
        found = pd.Series(self.counts[:-1], index=pd.MultiIndex.from_tuples(self.places)).unstack()  # noqa: PD010
        return found.reindex(index=pd.Index(list(self.schema), name="column"), columns=list(CELL_CLASSES))

    @cached_property
    def rows(self) -> float:
        """Number of rows: public, or the mean over columns of the sums of their counts."""
        return float(self.public) if self.public is not None else float(self.counts[:-1].sum() / len(self.schema))

    @cached_property
    def rows_variance(self) -> float:
        """Variance of `rows`."""
        return 0.0 if self.public is not None else self.variance * (len(self.counts) - 1) / len(self.schema) ** 2

    def share(self, count: Any) -> Any:
        """Return counts as shares of the rows, within 0 and 1; NaN where the number of rows is lost in noise."""
        return np.minimum(np.maximum(count / self.rows, 0.0), 1.0) if self.rows > 0 else count * np.nan

    def share_variance(self, count: Any) -> Any:
        """Variance of counts over the number of rows, by the delta method; infinite where this is lost in noise."""
        if self.rows <= 0:
            return count * 0 + np.inf
        share, both = self.share(count), 0.0 if self.public is not None else self.variance / len(self.schema)
        return np.maximum(self.variance - 2 * share * both + share**2 * self.rows_variance, 0.0) / self.rows**2

    @property
    def lost(self) -> bool:
        """Whether noise may be all that there is of the rows: then nothing can be said of their cells."""
        return self.rows <= self.limit

    # In words

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Sentences on what is beyond noise, and matters."""
        found: list[Advice] = []
        for (name, one), count in zip(self.places, self.counts[:-1].tolist(), strict=True):
            much = self._much(count, one, self.limit) if one in CELL_CLASSES[1:] else None
            if much is not None:
                found.append(Advice((name,), f"{much} cells of {name} {_fault(self.schema[name], one)}"))
        limit = self.limit * float(np.sqrt(1 + self.rows_variance / self.variance))  # of a difference of two
        much = self._much(self.rows - float(self.counts[-1]), ROWS_KEPT, limit)
        if much is not None and len(self.schema) > 1:
            text = f"{much} rows are left out of a model of all {len(self.schema)} columns."
            found.append(Advice(tuple(self.schema), text))
        return tuple(found)

    def _much(self, count: float, one: str, limit: float) -> str | None:
        """Say how many a count is of all; None where that is within its limit of noise, or little."""
        if self.lost or count <= limit or count < _RELEVANT.get(one, _USUALLY) * self.rows:
            return None
        share, rest = self.share(count), self.rows - count
        return "All" if rest <= self.limit and share > 0.9 else f"About {share:.0%} of the"


def _advice_of(release: Release) -> tuple[Advice, ...]:
    found = Quality.read(release)
    return () if found is None else found.advice


ADVICE[QUALITY] = _advice_of


def _fault(column: Column, one: str) -> str:
    """Say what is wrong with the cells of a class, what becomes of them, and what may help."""
    if one in (LOW, HIGH):
        assert isinstance(column, Real)
        side, bound, beyond = ("below", "lower", column.lower) if one == LOW else ("above", "upper", column.upper)
        end = column.describe().strip("[]").split(", ")[one == HIGH]
        usual = (_DATE_CODES if isinstance(column, Date) else _CODES)[one]
        values = column.meaning(np.array(usual, dtype=object))  # NaN where it is declared as missing
        clamped = (values < beyond if one == LOW else values > beyond) & np.isfinite(values)
        code = f"such as {usual[clamped.argmax()]!r}" if clamped.any() else "of no answer"
        fate = f"are {side} the {bound} bound {end} and count as it"
        return f"{fate}: widen the bound, or declare codes {code} in missing_codes=."
    policy = column.missing if one == MISSING else column.impossible
    fate = "their rows are left out" if isinstance(policy, str) and policy == DROP else f"they count as {policy!r}"
    if one == MISSING:
        return f"are missing: {fate}."
    if one == UNKNOWN:
        return (
            f"are no declared level ({column.describe()}): {fate}. Compare the levels with the codebook, letter by "
            "letter; cells that hold codes need codes=, and those of no answer missing_codes=."
        )
    takes = _TAKES.get(type(column), "one of the declared codes; codes such as 1 and 2 need Boolean(true=1, false=2)")
    if isinstance(column, Boolean) and column.true is None:
        takes = takes.replace("one of the declared codes", "True or False, or 0 or 1")
    bare = replace(column, missing=DROP, impossible=DROP, label="", unit="", source="")
    return f"are impossible for a column declared as {bare!r}: {fate}. It takes {takes}."
