"""Quantiles, medians and distribution functions, from one noisy tree of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpinfer.checks import TRUTH, Allowed, named, one_of
from dpinfer.distributions.results import CDFResults, read_probabilities
from dpinfer.distributions.tree import METHODS, fit_tree
from dpinfer.errors import ReleaseFormatError
from dpinfer.kernel.price import amounts
from dpinfer.kernel.rows.tree import MOST_LEAVES, PointRows, TreeSum
from dpinfer.kernel.stage import Context, Data, Place, Slot, Stage, Sum
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import (
    REPLICATES,
    SEED,
    TARGET,
    axes_of,
    axis_name,
    compiled_where,
    inferred,
    measured,
    told_where,
)
from dpinfer.procedures.procedure import Procedure
from dpinfer.schema.columns import Integer
from dpinfer.schema.expressions import axis_from_dict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]


_LEAVES = 4096

_RESOLUTION = Allowed(
    lambda given: given == "auto" or (type(given) is int and 2 <= given <= MOST_LEAVES and not given & (given - 1)),
    f'a power of two from 2 to {MOST_LEAVES:,}, or "auto"',
)

_CHOICE_SHARE, _LOST_SHARE = Fraction(1, 4), Fraction(9, 10)
"""Shares of the budget for choosing quantiles, and if the tree could reject no value; the tree has the rest."""

_REFUTES = 1.96
"""Standard deviations of noise within which all ranks lie for a tree that rejects nothing."""

_RANKS = 2**20
"""Probabilities are rounded to multiples of one over this where a quantile is chosen."""


@dataclass(frozen=True, eq=False)
class DistributionQuestion(Procedure):
    """A question about the distribution of a column, by group, answered by any release of it."""

    released_as = "cdf"

    column: str = measured("", named("the name of a Real or Integer column"))
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    resolution: int | Literal["auto"] = measured("auto", _RESOLUTION)
    target: str = inferred("population", TARGET)

    def rows(self, schema: Schema) -> TreeSum:
        """Return the tree of counts.

        Raises
        ------
        OptionError, SchemaError, FormulaError, UnknownColumnError
            If the column or the groups do not suit the schema.
        """
        column, leaves = schema[self.column], self.resolution
        if isinstance(leaves, str):
            numbers = 1 << int(column.width).bit_length() if isinstance(column, Integer) else _LEAVES
            leaves = int(min(_LEAVES, max(2, numbers)))
        groups = tuple(axis_from_dict(axis, schema) for axis in self.axes)
        found = TreeSum(schema, self.column, leaves, groups, compiled_where(self.where, schema))
        found.check()
        return found

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        groups = ", ".join(map(axis_name, self.axes))
        return f"{self.procedure} of {self.column}{f' by {groups}' if groups else ''}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a column or groups that do not suit the schema."""
        self.rows(schema)

    def resolve(self, context: Context) -> Self:
        """Return the same question with the number of leaves for the column."""
        return replace(self, resolution=self.rows(context.schema).leaves)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the tree of counts."""
        return Stage(Sum(self.rows(context.schema)))

    @property
    def about(self) -> object:
        """The column, the groups and the rows."""
        return DistributionQuestion, self.column, [dict(axis) for axis in self.axes], self.where

    def check_release(self, release: Release) -> None:
        """Refuse a release without this tree, or with unequal noise at nodes other than a public root."""
        super().check_release(release)
        scales = np.asarray(release.law.scales)
        expected = np.where(self.rows(release.schema).public(release.neighbors), 0.0, scales[-1])
        one_law = release.law.family in ("gaussian", "laplace") and len(set(release.steps)) == 1
        if not (one_law and scales[-1] > 0 and (scales == expected).all()):
            raise ReleaseFormatError("the noise of the release is not that of a tree of counts")

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise in ranks, before any budget is spent."""
        noise = largest_error(measured)
        return (
            f"{measured.describe()}\n"
            f"ranks        the noise of a rank has standard deviation at most {noise:.4g} rows, as large as the "
            f"sampling error of the median rank of {4 * noise**2:,.0f} rows"
        )

    def _function(self, release: Release | None) -> tuple[CDFResults, DistributionQuestion]:
        """Return the distribution function of a release, and the question it was made for; errors as in `infer`."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, DistributionQuestion)
        return CDFResults(found, theirs.rows(found.schema), self.where, self.target), theirs


def largest_error(measured: Measurement) -> float:
    """Largest standard deviation of the noise of a count below a value, in rows."""
    tree = measured.rows
    starts = [2**level - 1 for level in range(tree.depth + 1)]
    variances = (measured.law.variances * np.asarray(measured.steps) ** 2)[: tree.width][starts]
    return float(np.sqrt(fit_tree(np.zeros(tree.width), variances, tree.edges).noise_variance(0.5).max()))


@dataclass(frozen=True, eq=False)
class CDF(DistributionQuestion):
    """The distribution function of a column, by group. See `cdf`."""

    procedures = ("cdf",)

    replicates: int = inferred(999, REPLICATES)
    seed: int = inferred(0, SEED)

    def infer(self, release: Release | None = None) -> CDFResults:
        """Infer from a stored release of this question or of the same distribution, at no privacy cost."""
        return replace(self._function(release)[0], replicates=self.replicates, seed=self.seed)


@dataclass(frozen=True, eq=False)
class Quantile(DistributionQuestion):
    """Quantiles of a column, by group. See `quantile`."""

    procedures = ("quantile",)

    probabilities: tuple[float, ...] = inferred((0.5,))
    method: str = measured("auto", one_of(("auto", "exponential", "tree")))
    inference: str = inferred("auto", one_of(METHODS))
    continuous: bool = inferred(False, TRUTH)

    def check_options(self) -> None:
        """Refuse invalid probabilities."""
        read_probabilities(self.probabilities)

    @property
    def _chosen(self) -> bool:
        return self.method == "exponential" or (self.method == "auto" and len(self.probabilities) == 1)

    def text(self, schema: Schema) -> str:
        """Describe the question in one line."""
        more = ["..."] if len(self.probabilities) > 5 else []
        shown = ", ".join([*(f"{p:g}" for p in self.probabilities[:5]), *more])
        return f"quantile {shown}{super().text(schema).removeprefix('quantile')}"

    def resolve(self, context: Context) -> Self:
        """Return the same question with its number of leaves and its method."""
        return replace(super().resolve(context), method="exponential" if self._chosen else "tree")

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Split the budget between chosen quantiles and the tree, which yields the intervals.

        The share depends on the privacy parameters and the public number of rows.
        """
        if not self._chosen:
            return (Slot(),)
        rows, share = self.rows(context.schema), _CHOICE_SHARE
        if context.nobs is not None:
            price = amounts(context.privacy, (Slot(share, 1), Slot(1 - share, 1)))[1]
            tree = replace(self, method="tree")
            noise = largest_error(tree.measurement(price, schema=context.schema, neighbors=context.neighbors))
            if context.nobs * max(max(p, 1 - p) for p in self.probabilities) <= _REFUTES * noise:
                share = _LOST_SHARE
        return Slot(share, rows.size * len(self.probabilities)), Slot(1 - share, rows.size * rows.width)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the quantiles, if they are chosen, and for the tree of counts."""
        if not (self._chosen and place == 0):
            return super().stage(place, context, released)
        exact = tuple(Fraction(round(p * _RANKS), _RANKS) for p in self.probabilities)
        return Stage(Place(PointRows(self.rows(context.schema)), exact))

    def check_release(self, release: Release) -> None:
        """Refuse a release without this tree, or with chosen values outside the grid."""
        super().check_release(release)
        points = PointRows(self.rows(release.schema)).points
        for chosen in release.choices:
            if chosen.law.family != "gumbel" or not all(0 <= one < points for one in chosen.values):
                raise ReleaseFormatError("the chosen points are not on the grid")

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise in ranks, before any budget is spent."""
        if not self._chosen:
            return super().describe(measured)
        choice = measured.stages[0]
        missed = np.sqrt(2) * max(choice.law.scales) * choice.steps[0]
        line = f"choice       a chosen quantile misses its rank by about {missed:.4g} rows"
        return f"{super().describe(measured)}\n{line}"

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a stored release of this question or of the same distribution, at no privacy cost."""
        found, theirs = self._function(release)
        choices, mine, selected = found.release.choices, self.probabilities, None
        if choices and isinstance(theirs, Quantile) and theirs.probabilities == mine:
            values = [PointRows(found.rows).value(point) for point in choices[0].values]
            selected = np.array(values).reshape(-1, len(mine))
        return found.quantiles(mine, inference=self.inference, selected=selected, continuous=self.continuous)

    @classmethod
    def infer_release(cls, release: Release, *, q: object = None, **options: Any) -> DescriptionResults:
        """Infer from a stored release with other options of the inference, or other quantiles.

        Raises
        ------
        OptionError
            If the inference does not have an option, or an argument has an invalid value.
        """
        if q is not None:
            options["probabilities"] = read_probabilities(q)
        found: DescriptionResults = super().infer_release(release, **options)
        return found


@suggests
def quantile(
    column: str,
    data: Data | Release | None = None,
    *,
    q: float | Sequence[float] = 0.5,
    by: Columns = (),
    where: str | None = None,
    method: str = "auto",
    resolution: int | str = "auto",
    target: str = "population",
    inference: str = "auto",
    continuous: bool = False,
) -> Quantile:
    """Estimate quantiles of a column, by group.

    Parameters
    ----------
    column : str
        A Real or Integer column. Values are clipped to their declared bounds.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a stored release of the distribution of the column. Nothing is read or spent here.
    q : float or sequence of float
        Probabilities from 0 to 1.
    by : str or sequence of str
        Groups: Category, Boolean or short Integer columns, or conditions.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    method : {"auto", "exponential", "tree"}
        "tree" computes all quantiles from one noisy tree of counts: the distribution function. "exponential" also
        chooses each quantile by the exponential mechanism, for a quarter of the budget, which gives a much better
        estimate in small samples. The share is nine tenths if the number of rows is public and so small that the tree
        could reject no value. "auto" is "exponential" for one quantile and "tree" for several.
    resolution : int or "auto"
        Leaves of the tree, a power of two up to 16,384; "auto" is 4,096, or fewer for an Integer column.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only.
    inference : {"auto", "score", "wald"}
        "auto" is "score": every value that the test does not reject as the quantile, valid for any distribution,
        including ties.
    continuous : bool
        Set True only if no two rows share a value of a Real column, through rounding or heaping either. Endpoints of
        intervals are then interpolated within leaves rather than rounded outward to their edges.

    Returns
    -------
    Quantile
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If a probability is outside [0, 1], or an argument has an invalid value.
    SchemaError, UnknownColumnError, FormulaError
        If the column is not numeric or not declared, or a group or condition does not suit the schema.

    Notes
    -----
    The sources are Smith (2011) and McSherry & Talwar (2007) for the choice, Hay et al. (2010) for the tree, and
    Drechsler et al. (2022) for intervals. See `docs/quantiles.md`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"income": rng.lognormal(10, 1, 5000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(income=dpi.Real(0, 500_000)), rng=rng)
    >>> results = dpi.quantile("income", data, q=0.5).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / np.exp(10) - 1) < 0.1)
    True
    """
    return Quantile.asking(locals(), axes=axes_of(by), probabilities=read_probabilities(q))


@suggests
def median(
    column: str,
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
    """Estimate the median of a column, by group: `quantile` with ``q=0.5``.

    Parameters
    ----------
    column, data, by, where, method, resolution, target, inference, continuous
        As in `quantile`.

    Returns
    -------
    Quantile

    Raises
    ------
    OptionError, SchemaError, UnknownColumnError, FormulaError
        As in `quantile`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Integer(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(2000, rng), schema, rng=rng)
    >>> bool(abs(dpi.median("age", data).fit(dpi.ZCDP(0.1)).params.iloc[0] - 50) < 5)
    True
    """
    return Quantile.asking(locals(), axes=axes_of(by), probabilities=(0.5,))


@suggests
def cdf(
    column: str,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    resolution: int | str = "auto",
    target: str = "population",
    replicates: int = 999,
    seed: int = 0,
) -> CDF:
    """Estimate the distribution function of a column, by group, with a simultaneous band.

    Parameters
    ----------
    column, data, by, where, resolution, target
        As in `quantile`.
    replicates, seed : int
        Number of replicates and public seed of the simulation for the simultaneous band.

    Returns
    -------
    CDF
        Its results have ``.frame()``, ``.quantile(q)``, ``.band_width()`` and ``.plot()``.

    Raises
    ------
    OptionError, SchemaError, UnknownColumnError, FormulaError
        As in `quantile`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> results = dpi.cdf("age", dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.quantile(0.5).params.iloc[0] - 50) < 5)
    True
    """
    return CDF.asking(locals(), axes=axes_of(by))
