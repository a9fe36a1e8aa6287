"""A density: a histogram over declared bounds, in bins that are given or chosen privately."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.moment_inference import TARGETS
from dpinfer.mechanisms import Data
from dpinfer.models.cell_sums import noise_plan, sums_bound, sums_measurement
from dpinfer.models.keywords import suggests
from dpinfer.models.procedure import Procedure
from dpinfer.privacy.sensitivity import joint_sensitivity
from dpinfer.privacy.units import PureDP
from dpinfer.release import Measurement, NoiseLaw
from dpinfer.results.density import infer_density
from dpinfer.results.density_question import DensityQuestion
from dpinfer.schema.density_rows import read_edges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release
    from dpinfer.results.density import DensityResults
    from dpinfer.schema.density_rows import DensityRows
    from dpinfer.schema.schema import Schema

__all__ = ["Density", "density"]

_SHARES = {"rows": 0.02, "fine": 0.1}
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

    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Say what would be measured at a price; see `Procedure.measurement`."""
        schema, neighbors, _ = self._context(privacy, schema, neighbors)
        question = self._question(schema)
        question.check()
        if self.bins != "auto":
            measured = sums_measurement(
                question.rows, kind="density", privacy=privacy, neighbors=neighbors, question=question.to_dict()
            )
            return replace(measured, measures=f"{question.text}: counts in {question.rows.size:,} given bins")
        return _staged_measurement(question, privacy, neighbors)

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the noise of counts.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        errors = np.sqrt(measured.law.variances) * np.asarray(measured.steps)
        lines = [measured.describe()]
        if self.bins == "auto":
            parts = measured.rows.parts  # type: ignore[union-attr]
            told = [("the number of rows", "rows"), ("a fine count", "fine"), ("a count of the chosen bins", "bins")]
            shown = [f"{words} {errors[parts[name].start]:.4g}" for words, name in told if errors[parts[name]].size]
        else:
            shown = [f"a count {errors[0]:.4g}"]
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


def _staged_measurement(question: DensityQuestion, privacy: Privacy, neighbors: Neighbors) -> Measurement:
    """Plan the counts of all stages as one measurement.

    Coordinates of a stage have noise in proportion to its bound over its share (L1) or over the root of it (L2), so
    that the costs of the stages, whatever the later ones are asked, add up to the price.
    """
    rows = question.staged(neighbors)
    pure = isinstance(privacy, PureDP)
    norm: Norm = "l1" if pure else "l2"
    bounds = _bounds(rows, neighbors, norm)
    shares = {name: share for name, share in _SHARES.items() if name in bounds}
    shares["bins"] = 1.0 - sum(shares.values())
    relative = {
        name: float(bound / bounds["bins"]) * (shares["bins"] / shares[name]) ** (1.0 if pure else 0.5)
        for name, bound in bounds.items()
    }
    weights = np.ones(rows.parts["bins"].stop)
    for name, weight in relative.items():
        weights[rows.parts[name]] = weight
    total = joint_sensitivity([(bounds[name], relative[name]) for name in bounds], norm=norm)
    scales, multiplier, cost = noise_plan(total, privacy, weights)
    count = "the number of rows, then " if rows.counted else ""
    moved = "; a row that changes its bin counts in both" if neighbors == "replace_one" else ""
    return Measurement(
        kind="density",
        question=question.to_dict(),
        rows=rows,
        law=NoiseLaw("laplace" if pure else "gaussian", tuple(scales.tolist())),
        cost=cost,
        neighbors=neighbors,
        names=tuple(f"{name} {place}" for name, part in rows.parts.items() for place in range(part.stop - part.start)),
        steps=(1.0 / multiplier,) * len(scales),
        sensitivity=question.schema.of_unit(
            f"{'L1' if pure else 'Euclidean'} norm of the change of the counts of a stage at most "
            f"{float(bounds['bins']):.6g} rows{moved}"
        ),
        measures=f"{question.text}: {count}counts in at most {rows.size:,} fine bins, then in bins chosen from these",
        multiplier=multiplier,
    )


def _bounds(rows: DensityRows, neighbors: Neighbors, norm: Norm) -> dict[str, Fraction]:
    """Bound on the change of the counts of each stage; any number of bins has that of two."""
    widths = {"rows": rows.size, "fine": 1, "bins": 1}
    return {
        name: sums_bound(rows.stage(width), np.ones(1), neighbors, norm)
        for name, width in widths.items()
        if name != "rows" or rows.counted
    }


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
    >>> from dpinfer.models.density import density
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
