"""Quantiles and distribution functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, PrivacyUnitError
from dpinfer.inference.distribution import fit_tree
from dpinfer.inference.quantiles import METHODS, TARGETS
from dpinfer.mechanisms import Data
from dpinfer.mechanisms.quantiles import LARGEST_CHOICE, RANK, SLACK
from dpinfer.models.cell_sums import noise_plan
from dpinfer.models.descriptions import axes_of
from dpinfer.models.keywords import suggests
from dpinfer.models.procedure import Procedure
from dpinfer.privacy.selection import choice_cost, choice_scale
from dpinfer.privacy.sharing import joint_cost, shared
from dpinfer.privacy.units import PureDP
from dpinfer.release import Measurement, NoiseLaw
from dpinfer.results.distribution import CDFResults, infer_cdf
from dpinfer.results.quantiles import DistributionQuestion, infer_quantiles, read_probabilities
from dpinfer.schema.columns import Integer
from dpinfer.schema.tree_rows import MOST_LEAVES, QuantileRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema
    from dpinfer.schema.tree_rows import TreeRows

    Columns = str | Sequence[str]

__all__ = ["Quantile", "cdf", "quantile"]

CHOICES = ("auto", "exponential", "tree")

_CHOICE_SHARE = 0.25
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

    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Say what would be measured at a price; see `Procedure.measurement`."""
        schema, neighbors, _ = self._context(privacy, schema, neighbors)
        question = self._question(schema)
        tree = question.tree
        price, rows = privacy, None
        costs: list[Cost] = []
        if self._chosen:
            count = len(self.probabilities)
            first, price = shared(privacy, [_CHOICE_SHARE, 1 - _CHOICE_SHARE])
            scales, costs = _choices(question, first / count, neighbors)
            rows = question.choice(scales)
        norm: Norm = "l1" if isinstance(privacy, PureDP) else "l2"
        public = tree.root_is_public(neighbors)
        noisy = np.ones(tree.size * tree.width, dtype=bool)
        noisy[0] = not public
        placed = np.zeros(noisy.size)
        placed[noisy], multiplier, cost = noise_plan(
            tree.bound(neighbors, norm), price, np.ones(int(noisy.sum())), total=privacy
        )
        return Measurement(
            kind="cdf",
            question=question.to_dict(),
            rows=rows or tree,
            law=NoiseLaw("laplace" if norm == "l1" else "gaussian", tuple(placed.tolist())),
            cost=joint_cost(privacy, [*costs, cost]) if costs else cost,
            neighbors=neighbors,
            names=tree.names,
            steps=(1.0 / multiplier,) * noisy.size,
            sensitivity=_words(tree, neighbors, norm),
            measures=_measures(question, self._chosen),
            multiplier=multiplier,
        )

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and the noise in ranks, before anything is spent."""
        schema, neighbors, _ = self._context(privacy, schema, neighbors)
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        question = self._question(schema)
        tree = question.tree
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
            assert isinstance(measured.rows, QuantileRows)
            scale = max(measured.rows.scales)
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


def _choices(question: DistributionQuestion, price: Privacy, neighbors: Neighbors) -> tuple[list[float], list[Cost]]:
    """Noise scales in rows of the choices, and their costs; each choice has the given price.

    A row more changes the rank by which a point misses the quantile p by at most max(p, 1 - p), up or down; a replaced
    row by at most 1. A row that is replaced may leave one group and join another: two choices then change as if a row
    were removed and one added, and each is given half of the price.
    """
    halves = 2 if neighbors == "replace_one" and question.axes else 1
    each = price / halves
    scales, costs = [], []
    for p in question.choice().probabilities:
        moved = 2 * (Fraction(1) if neighbors == "replace_one" else max(p, 1 - p))
        spread = (moved + Fraction(SLACK, RANK)) * question.schema.rows_per_unit
        scales.append(choice_scale(spread, each, "gumbel"))
        if scales[-1] * RANK > LARGEST_CHOICE:
            raise PrivacyUnitError(f'{each} is too small a price to choose a quantile at: use method="tree"')
        costs += [choice_cost(each, "gumbel")] * halves
    return scales, costs


def _words(tree: TreeRows, neighbors: Neighbors, norm: Norm) -> str:
    kind = "Euclidean" if norm == "l2" else "L1"
    bound = float(tree.bound(neighbors, norm))
    changed = f"a row of it is counted once in each of {tree.depth + 1} levels"
    return f"{tree.schema.unit}; {changed}: {kind} norm of the change at most {bound:.6g}"


def _measures(question: DistributionQuestion, chosen: bool) -> str:
    groups = f" in each of {question.tree.size:,} groups" if question.axes else ""
    text = f"the number of rows in every node of a tree over {question.column} with {question.leaves:,} leaves{groups}"
    if chosen:
        text = f"{question.text}, chosen by the exponential mechanism; and {text}"
    return text


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
