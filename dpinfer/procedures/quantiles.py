"""Quantiles and distribution functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.distribution import fit_tree
from dpinfer.inference.quantiles import METHODS, TARGETS
from dpinfer.kernel.rows.tree import MOST_LEAVES
from dpinfer.kernel.stage import Context, Data, Place, Slot, Stage, Sum
from dpinfer.procedures.descriptions import axes_of
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.distribution import CDFResults, infer_cdf
from dpinfer.results.quantiles import DistributionQuestion, infer_quantiles, read_probabilities
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

__all__ = ["Quantile", "cdf", "quantile"]

CHOICES = ("auto", "exponential", "tree")

_CHOICE_SHARE = Fraction(1, 4)
"""Share of the price for choosing quantiles; the rest goes to the tree, which intervals come from."""

_LEAVES = 4096


@dataclass(frozen=True, eq=False)
class Quantile(Procedure):
    """A question about the distribution of a column. See `quantile` and `cdf`."""

    column: str = ""
    probabilities: tuple[float, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = field(default=())
    where: str | None = None
    method: str = "auto"
    resolution: int | str = "auto"
    target: str = "population"
    inference: str = "auto"
    continuous: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.continuous, bool):
            raise OptionError("continuous", self.continuous, "True or False")
        if not isinstance(self.column, str) or not self.column:
            raise OptionError("column", self.column, "the name of a Real or Integer column")
        if self.method not in CHOICES:
            raise OptionError("method", self.method, CHOICES)
        if self.inference not in METHODS:
            raise OptionError("inference", self.inference, METHODS)
        if self.target not in TARGETS:
            raise OptionError("target", self.target, TARGETS)
        if self.resolution != "auto" and type(self.resolution) is not int:
            raise OptionError("resolution", self.resolution, f'a power of two from 2 to {MOST_LEAVES:,}, or "auto"')
        super().__post_init__()
        if isinstance(self.source, Data):
            _ = self._question(self.source.schema).tree

    @property
    def _chosen(self) -> bool:
        return self.method == "exponential" or (self.method == "auto" and len(self.probabilities) == 1)

    def _question(self, schema: Schema) -> DistributionQuestion:
        options: dict[str, Any] = {"target": self.target}
        if self.probabilities:
            options |= {"inference": self.inference, "continuous": self.continuous}
        return DistributionQuestion(
            schema,
            self.column,
            self._leaves(schema),
            self.axes,
            self.where,
            self.probabilities,
            self._chosen,
            options,
        )

    def _leaves(self, schema: Schema) -> int:
        if self.resolution != "auto":
            return int(self.resolution)
        column = schema[self.column]
        if isinstance(column, Integer):
            return int(min(_LEAVES, max(2, 1 << int(column.width).bit_length())))
        return _LEAVES

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "cdf": every release holds a distribution function."""
        return "cdf"

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Give chosen quantiles a quarter of the price, and the tree that intervals come from the rest."""
        if not self._chosen:
            return (Slot(),)
        tree = self._question(context.schema).tree
        nodes, points = len(tree.names), tree.size * len(self.probabilities)
        return Slot(_CHOICE_SHARE, points), Slot(1 - _CHOICE_SHARE, nodes)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the quantiles, where they are chosen, and for the tree of counts."""
        asked = self._question(context.schema)
        if self._chosen and place == 0:
            return Stage(Place(asked.points, asked.exact))
        return Stage(Sum(asked.tree))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and the noise in ranks, before anything is spent."""
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        tree = self._question(measured.context.schema).tree
        starts = [2**level - 1 for level in range(tree.depth + 1)]
        variances = (measured.law.variances * np.asarray(measured.steps) ** 2)[: tree.width][starts]
        found = fit_tree(np.zeros(tree.width), variances, tree.edges)
        noise = float(np.sqrt(found.noise_variance(0.5).max()))
        lines = [
            measured.describe(),
            f"ranks        a count below a value carries noise of standard deviation {noise:.4g} rows at most: the "
            f"sampling error of a median of {4 * noise**2:,.0f} rows",
        ]
        if self._chosen:
            chosen = measured.stages[0]
            scale = max(chosen.law.scales) * chosen.steps[0]
            lines.append(f"choice       a chosen quantile misses its rank by about {np.sqrt(2) * scale:.4g} rows")
        return "\n".join(lines)

    def infer(self, release: Release | None = None) -> DescriptionResults | CDFResults:
        """Infer from a release of this question, or of the same distribution: free, and without any row."""
        asked = {"column": self.column, "axes": [dict(axis) for axis in self.axes], "where": self.where}
        found = self._asked(release, "cdf", **asked)
        if not self.probabilities:
            distribution: CDFResults = infer_cdf(found, target=self.target)
            return distribution
        quantiles: DescriptionResults = infer_quantiles(
            found,
            q=list(self.probabilities),
            inference=self.inference,
            target=self.target,
            continuous=self.continuous,
        )
        return quantiles


@suggests
def quantile(
    column: str,
    q: float | Sequence[float] = 0.5,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    method: str = "auto",
    resolution: int | str = "auto",
    target: str = "population",
    inference: str = "auto",
    continuous: bool = False,
) -> Quantile:
    """Quantiles of a column, by group.

    Parameters
    ----------
    column : str
        A Real or Integer column. Values are clamped to their declared bounds.
    q : float or sequence of float
        Probabilities from 0 to 1.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release that holds the distribution of the column. Nothing is read or spent here.
    by : str or sequence of str
        Groups: Category, Boolean or short Integer columns, or conditions.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    method : {"auto", "exponential", "tree"}
        "tree" reads all quantiles from one noisy tree of counts: the distribution function. "exponential" chooses each
        quantile by the exponential mechanism besides, for a quarter of the price: a much better estimate where rows are
        few. "auto" is "exponential" for one quantile and "tree" for several.
    resolution : int or "auto"
        Leaves of the tree, a power of two up to 16,384; "auto" is 4,096, or fewer for an Integer column.
    target : {"population", "data"}
        For "data" the rows are the whole population and only the noise counts as error.
    inference : {"auto", "score", "wald"}
        "auto" is "score": every value that is not refuted as the quantile, valid for any distribution, with ties too.
    continuous : bool
        Say True only where no value of a Real column is taken by several rows, rounded and heaped ones included: ends
        of intervals are then interpolated within leaves, not rounded outward to them.

    Returns
    -------
    Quantile
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If a probability is outside [0, 1], or an option has no such value.
    SchemaError, UnknownColumnError, FormulaError
        If the column is not numeric or not declared, or a group or condition cannot be served from the schema.

    Notes
    -----
    Smith (2011) and McSherry & Talwar (2007) for the choice, Hay et al. (2010) for the tree, Drechsler et al. (2022)
    for intervals. See `docs/quantiles.md`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"income": rng.lognormal(10, 1, 5000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(income=dpi.Real(0, 500_000)), rng=rng)
    >>> results = dpi.quantile("income", 0.5, data).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / np.exp(10) - 1) < 0.1)
    True
    """
    return Quantile(
        source=data,
        column=column,
        probabilities=read_probabilities(q),
        axes=axes_of(by),
        where=where,
        method=method,
        resolution=resolution,
        target=target,
        inference=inference,
        continuous=continuous,
    )


@suggests
def cdf(
    column: str,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    resolution: int | str = "auto",
    target: str = "population",
) -> Quantile:
    """Distribution function of a column, by group, with a simultaneous band.

    Parameters
    ----------
    column, data, by, where, resolution, target
        As in `quantile`.

    Returns
    -------
    Quantile
        Its results have ``.frame()``, ``.quantile(q)``, ``.band_width()`` and ``.plot()``.

    Raises
    ------
    OptionError, SchemaError, UnknownColumnError, FormulaError
        As `quantile`.
    """
    return Quantile(
        source=data,
        column=column,
        axes=axes_of(by),
        where=where,
        method="tree",
        resolution=resolution,
        target=target,
    )
