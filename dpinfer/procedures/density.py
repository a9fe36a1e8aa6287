"""A density: a histogram over declared bounds, in bins that are given or chosen privately."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.moment_inference import TARGETS
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.stage import Context, Data, Slot, Stage, Sum
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.density import infer_density
from dpinfer.results.density_question import DensityQuestion
from dpinfer.results.fine_grid import read_edges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.density import DensityResults
    from dpinfer.results.fine_grid import FineGrid
    from dpinfer.schema.schema import Schema

__all__ = ["Density", "density"]

_SHARES = {"rows": Fraction(1, 50), "fine": Fraction(1, 10)}
"""Parts of the price for the number of rows and for the fine counts; the rest is for the counts of the chosen bins."""


@dataclass(frozen=True, eq=False)
class Density(Procedure):
    """A question about the density of a column. See `density`."""

    column: str = ""
    bins: str | int | tuple[float, ...] = "auto"
    where: str | None = None
    target: str = "population"

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise OptionError("column", self.column, "the name of a numeric column")
        if self.target not in TARGETS:
            raise OptionError("target", self.target, TARGETS)
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema).check()

    def _question(self, schema: Schema) -> DensityQuestion:
        return DensityQuestion(schema, self.column, self.bins, self.where, self.target)

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "density"."""
        return "density"

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Share the price among the number of rows, where it is not public, fine counts and those of chosen bins."""
        if self.bins != "auto":
            return (Slot(),)
        rows = self._question(context.schema).staged(context.neighbors)
        shares = dict(_SHARES) if rows.counted else {"fine": _SHARES["fine"]}
        counted = [Slot(shares["rows"], 1)] if rows.counted else []
        fine = Slot(shares["fine"], rows.size, adaptive=rows.counted)
        return *counted, fine, Slot(1 - sum(shares.values(), Fraction(0)), rows.size, adaptive=True)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for counts in given bins; or for the number of rows, fine counts, and counts in the bins these choose."""
        asked = self._question(context.schema)
        if self.bins != "auto":
            return Stage(Sum(asked.rows))
        rows = asked.staged(context.neighbors)
        if rows.counted and place == 0:
            return Stage(Sum(rows.stage(rows.size)))
        if place == int(rows.counted):
            noise = price_stage(Stage(Sum(rows.stage(1))), self._fine_price(context), context)
            spread = float(np.sqrt(noise.law.variances[0])) * noise.steps[0]
            nobs = float(released[0].array[0]) if rows.counted else float(context.nobs or 0)
            fine = rows.fine_width(nobs, spread)
            return Stage(Sum(rows.stage(fine)), settings={"fine": fine})
        return self._chosen_bins(rows, context, released)

    def _chosen_bins(self, rows: FineGrid, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for counts in the bins that the fine counts choose."""
        first = released[-1]
        fine, counts = int(first.settings["fine"]), first.array
        fine_noise = float(first.noise_variances[0])
        size = float(context.nobs or 0)
        if rows.counted:
            size, row_noise = float(released[0].array[0]), float(released[0].noise_variances[0])
            weight = row_noise / (row_noise + fine_noise * len(counts))
            size += weight * (float(counts.sum()) - size)
        last = price_stage(Stage(Sum(rows.stage(1))), self._price(context, -1), context)
        bin_noise = float(last.law.variances[0]) * last.steps[0] ** 2
        width = rows.bin_width(counts, fine, nobs=size, fine_noise=fine_noise, bin_noise=bin_noise)
        return Stage(Sum(rows.stage(width)), settings={"width": width})

    def _price(self, context: Context, place: int) -> Privacy:
        """Price of a stage, for the noise that is expected of it."""
        return amounts(context.privacy, self.slots(context))[place]

    def _fine_price(self, context: Context) -> Privacy:
        return self._price(context, -2)

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        asked = self._question(context.schema)
        asked.check()
        return asked.to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the noise of counts.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        errors = [float(np.sqrt(stage.law.variances[0])) * stage.steps[0] for stage in measured.stages]
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

    def infer(self, release: Release | None = None) -> DensityResults:
        """Infer from a release of this question: free, and without any row.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        bins = list(self.bins) if isinstance(self.bins, tuple) else self.bins
        found = self._asked(release, "density", column=self.column, bins=bins, where=self.where)
        results: DensityResults = infer_density(found, target=self.target)
        return results


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
    >>> from dpinfer.procedures.density import density
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"share": rng.beta(2, 5, 20_000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(share=dpi.Real(0, 1)), rng=rng)
    >>> results = density("share", data).fit(dpi.PureDP(1.0))
    >>> 20 < results.bins < 200
    True
    >>> bool(abs(results.density(0.2) - 2.4576) < 0.4)
    True
    """
    return Density(source=data, column=column, bins=read_edges(bins), where=where, target=target)
