"""A density: a histogram over declared bounds, in bins that are given or chosen privately."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.stage import Context, Data, Slot, Stage, Sum
from dpinfer.procedures.conditions import told_where
from dpinfer.procedures.density_plan import DensityPlan
from dpinfer.procedures.explanation import first_error
from dpinfer.procedures.fine_grid import read_edges
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, inferred, measured, named
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.density import DensityResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.fine_grid import FineGrid
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["Density", "density"]

_SHARES = {"rows": Fraction(1, 50), "fine": Fraction(1, 10)}
"""Parts of the price for the number of rows and for the fine counts; the rest is for the counts of the chosen bins."""

_LEAST = float(np.finfo(np.float64).tiny)
"""Least noise variance that choices assume: a price that leaves less is refused when all stages are known."""


@dataclass(frozen=True, eq=False)
class Density(Procedure):
    """The density of a column. See `density`."""

    procedures = ("density",)

    column: str = measured("", named("the name of a numeric column"))
    bins: Literal["auto"] | int | tuple[float, ...] = "auto"
    where: str | None = None
    target: str = inferred("population", TARGET)

    def check_options(self) -> None:
        """Refuse invalid bins."""
        read_edges(self.bins)

    def plan(self, schema: Schema) -> DensityPlan:
        """Return the bins, compiled against a schema."""
        return DensityPlan(schema, self.column, self.bins, self.where)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"density of {self.column}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a column or bins that the schema cannot serve."""
        self.plan(schema).check()

    # What is measured

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Share the price among the number of rows (unless public), the fine counts and the counts in chosen bins."""
        if self.bins != "auto":
            return (Slot(),)
        grid = self.plan(context.schema).grid(context.neighbors)
        shares = dict(_SHARES) if grid.counted else {"fine": _SHARES["fine"]}
        counted = [Slot(shares["rows"], 1)] if grid.counted else []
        fine = Slot(shares["fine"], grid.size, adaptive=grid.counted)
        return *counted, fine, Slot(1 - sum(shares.values(), Fraction(0)), grid.size, adaptive=True)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for counts in given bins; or for the number of rows, fine counts, and counts in the bins these choose."""
        plan = self.plan(context.schema)
        if self.bins != "auto":
            return Stage(Sum(plan.rows))
        grid = plan.grid(context.neighbors)
        if grid.counted and place == 0:
            return Stage(Sum(grid.stage(grid.size)))
        noise = self._noise_variance(place, grid, context)
        if place == int(grid.counted):
            nobs = float(released[0].array[0]) if grid.counted else float(context.nobs or 0)
            fine = grid.fine_width(nobs, float(np.sqrt(noise)))
            return Stage(Sum(grid.stage(fine)), settings={"fine": fine})
        width = _chosen_width(grid, context.nobs, released, noise)
        return Stage(Sum(grid.stage(width)), settings={"width": width})

    def _noise_variance(self, place: int, grid: FineGrid, context: Context) -> float:
        """Noise variance of a count of a stage, known before its bins are: it is the same for bins of any width."""
        amount = amounts(context.privacy, self.slots(context))[place]
        priced = price_stage(Stage(Sum(grid.stage(1))), amount, context)
        return max(float(priced.law.variances[0]) * priced.steps[0] ** 2, _LEAST)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose counts are not those of the bins."""
        self.plan(release.schema).histograms(release)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the noise of counts.
        """
        errors = [first_error(stage) for stage in measured.stages]
        told = ["the number of rows", "a fine count", "a count of the chosen bins"][-len(errors) :]
        shown = [f"{words} {error:.4g}" for words, error in zip(told, errors, strict=True)]
        if self.bins != "auto":
            shown = [f"a count {errors[0]:.4g}"]
        lines = [f"question     {measured.text}", measured.describe()]
        lines.append(f"standard deviation of the noise, in rows: {', '.join(shown)}")
        lines.append(
            "a density is a count over the number of rows and the width of its bin; so is its noise, and sampling "
            f"alone moves a bin of {errors[-1] ** 2:.4g} rows by as much"
        )
        return "\n".join(lines)

    # What is inferred

    def infer(self, release: Release | None = None) -> DensityResults:
        """Infer from a release of this question: free, and without any row.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, _ = self._asked_of(release)
        return DensityResults(found, self.plan(found.schema).histograms(found), self.target)


def _chosen_width(grid: FineGrid, nobs: int | None, released: tuple[StageRelease, ...], noise: float) -> int:
    """Choose how many cells a counted bin holds, from the fine counts; ``noise`` is the variance of its count."""
    first = released[-1]
    fine, counts, fine_noise = int(first.settings["fine"]), first.array, max(float(first.noise_variances[0]), _LEAST)
    size = float(nobs or 0)
    if grid.counted:
        size, row_noise = float(released[0].array[0]), float(released[0].noise_variances[0])
        weight = row_noise / (row_noise + fine_noise * len(counts))
        size += weight * (float(counts.sum()) - size)
    return grid.bin_width(counts, fine, nobs=size, fine_noise=fine_noise, bin_noise=noise)


@suggests
def density(
    column: str,
    data: Data | Release | None = None,
    *,
    bins: str | int | Sequence[float] = "auto",
    where: str | None = None,
    target: str = "population",
) -> Density:
    """Estimate the density of a numeric column by a histogram over its declared bounds.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    bins : "auto", int or sequence of float
        Choose the number of equal bins privately, from counts in finer ones; or a number of equal bins over the
        declared bounds; or increasing edges within them: the density is then that of the rows between these. Of an
        Integer column a bin holds whole numbers, and its width is how many.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    target : {"population", "data"}
        For "data" the rows are all there is: only the noise counts as error.

    Returns
    -------
    Density
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If bins are none of these; with data also where they do not fit the declared bounds.
    UnknownColumnError, SchemaError
        If the column is not declared, or not numeric.
    FormulaError
        If ``where`` cannot be served from the schema.

    Notes
    -----
    A row is in one bin at most. With ``bins="auto"`` three noisy histograms are released in one measurement: one bin
    (2% of the price; not where the number of rows is public), fine bins (10%), and the bins that the first two choose.
    The density merges these by what their own counts tell, at no cost.
    Proofs, formulas and measurements are in `docs/density.md`. Wasserman & Zhou (2010), with the two stages that they
    leave open.

    Examples
    --------
    >>> import pandas as pd
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"share": rng.beta(2, 5, 20_000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(share=dpi.Real(0, 1)), rng=rng)
    >>> results = dpi.density("share", data).fit(dpi.PureDP(1.0))
    >>> 20 < results.bins < 200
    True
    >>> bool(abs(results.density(0.2) - 2.4576) < 0.4)
    True
    """
    return Density.asking(locals(), bins=read_edges(bins))
