"""Results of a search for bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError, names_of
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.printing import PrivateSummary, cell_table, summary_of
from dpinfer.results.wording import charge_notes, column_notes, guarantee, guarantee_facts, title_guarantee
from dpinfer.schema.columns import DROP, Integer, Real, limits_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.inference.linear_noise import LinearNoise
    from dpinfer.release import Release
    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema

__all__ = ["BoundsResults", "bounded"]


class BoundsResults(DescriptionResults):
    """Bounds of columns, found from noisy counts in signed octaves.

    ``params``, ``bse``, ``conf_int()`` and ``summary_frame()`` are of the counts, by column and octave.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    found : mapping of str to (lower, upper)
        NaN where nothing is beyond noise.
    threshold : float
        Counts above it are beyond noise.
    margin : int
        Octaves that were added beyond the outermost occupied ones.
    """

    def __init__(
        self,
        inference: LinearNoise,
        release: Release,
        *,
        found: Mapping[str, tuple[float, float]],
        threshold: float,
        margin: int,
        **labels: Any,
    ) -> None:
        super().__init__(inference, release, **labels)
        self._found, self.threshold, self.margin = dict(found), threshold, margin
        self._declared = release.schema

    def _labels(self) -> dict[str, Any]:
        own = {"found": self._found, "threshold": self.threshold, "margin": self.margin}
        return {**super()._labels(), **own}

    @property
    def flags(self) -> tuple[str, ...]:
        """One sentence for each column whose bounds are not determined."""
        right = "pay more, or declare bounds from public knowledge"
        return tuple(f"{name}: not determined; no octave is beyond noise: {right}." for name in self._missing)

    @property
    def _missing(self) -> list[str]:
        return [name for name, (lower, _) in self._found.items() if math.isnan(lower)]

    @property
    def bounds(self) -> pd.DataFrame:
        """Bounds by column: "lower" and "upper" (NaN where not determined), "declared lower", "declared upper"."""
        declared = [limits_of(self._declared[name]) for name in self._found]
        lines = [(*self._found[name], *ends) for name, ends in zip(self._found, declared, strict=True)]
        titles = ["lower", "upper", "declared lower", "declared upper"]
        return pd.DataFrame(lines, columns=titles, index=pd.Index(list(self._found), name="column"), dtype=np.float64)

    @property
    def schema(self) -> Schema:
        """The whole schema of the data, with these bounds, for ``PrivateData(frame, results.schema, ledger)``.

        Constants that stand for missing and impossible cells stay within the bounds, which are widened for them.

        Raises
        ------
        InferenceError
            Where the bounds of a column are not determined.
        """
        if self._missing:
            raise InferenceError(
                f"the bounds of {names_of(self._missing)} are not determined: no octave is beyond noise. Pay more, or "
                "declare bounds from public knowledge"
            )
        schema = self._declared
        return schema.replace({name: bounded(schema[name], *ends) for name, ends in self._found.items()})

    def summary(
        self,
        yname: str | None = None,  # noqa: ARG002  (there is no response)
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,  # noqa: ARG002  (no intervals are shown)
    ) -> PrivateSummary:
        """Return the bounds as a table; of the arguments only ``xname`` (names of columns) and ``title`` are used."""
        frame = self.bounds
        cells = [
            ["not determined" if math.isnan(line[0]) else f"{line[0]:,.6g}", *(_number(end) for end in line[1:])]
            for line in frame.to_numpy()
        ]
        table = cell_table(cells, list(frame.columns), list(frame.index) if xname is None else list(xname))
        left = [
            ("Counts beyond noise:", f"above {self.threshold:,.4g}"),
            ("Margin:", f"{self.margin} octave{'' if self.margin == 1 else 's'}"),
        ]
        notes = [
            guarantee(self.release),
            "Bounds hold the outermost octaves with a count beyond noise, and the margin. Further out there may be "
            "rows, too few to be seen: they are clamped.",
            *column_notes(self.release),
            *charge_notes(self.release),
        ]
        return summary_of(title or "Private bounds", left, guarantee_facts(self.release), table, notes, self.flags)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        lost = len(self._missing)
        return f"<BoundsResults: {len(self._found)} columns, {lost} not determined, {title_guarantee(self.release)}>"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.6g}"


def bounded(column: Column, lower: float, upper: float) -> Column:
    """Return a numeric column with other bounds, which constants of policies stay within."""
    assert isinstance(column, Real)
    held = [float(one) for one in (column.missing, column.impossible) if one != DROP]
    lower, upper = min(lower, *held, lower), max(upper, *held, upper)
    if isinstance(column, Integer):
        return replace(column, lower=math.floor(lower), upper=math.ceil(upper))
    return replace(column, lower=lower, upper=upper)
