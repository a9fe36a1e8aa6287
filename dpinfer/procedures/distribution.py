"""Distribution functions, and what quantiles share with them: a noisy tree of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpinfer.inference.distribution import fit_tree
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import REPLICATES, SEED, TARGET, inferred, measured, named
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.table_axes import axes_of
from dpinfer.procedures.tree_plan import LEAVES, TreePlan
from dpinfer.results.distribution import CDFResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

__all__ = ["CDF", "OfDistribution", "cdf", "largest_error"]


@dataclass(frozen=True, eq=False)
class OfDistribution(Procedure):
    """A question about the distribution of a column, by group: any release of that distribution serves it."""

    released_as = "cdf"

    column: str = measured("", named("the name of a Real or Integer column"))
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    resolution: int | Literal["auto"] = measured("auto", LEAVES)
    target: str = inferred("population", TARGET)

    def plan(self, schema: Schema) -> TreePlan:
        """Return the tree, compiled against a schema."""
        return TreePlan(schema, self.column, self.resolution, self.axes, self.where)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a column or groups that the schema cannot serve."""
        _ = self.plan(schema).tree

    def resolve(self, context: Context) -> Self:
        """Return the same question with the number of leaves that the column gets."""
        return replace(self, resolution=self.plan(context.schema).leaves)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the tree of counts."""
        return Stage(Sum(self.plan(context.schema).tree))

    @property
    def about(self) -> object:
        """The column, the groups and the rows."""
        return OfDistribution, self.column, [dict(axis) for axis in self.axes], self.where

    def check_release(self, release: Release) -> None:
        """Refuse a release that holds no such tree."""
        super().check_release(release)
        self.plan(release.schema).check_noise(release)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise in ranks, before anything is spent."""
        return "\n".join(self._explained(measured))

    def _explained(self, measured: Measurement) -> list[str]:
        noise = largest_error(measured)
        return [
            measured.describe(),
            f"ranks        a count below a value carries noise of standard deviation {noise:.4g} rows at most: the "
            f"sampling error of a median of {4 * noise**2:,.0f} rows",
        ]


@dataclass(frozen=True, eq=False)
class CDF(OfDistribution):
    """The distribution function of a column, by group. See `cdf`."""

    procedures = ("cdf",)

    replicates: int = inferred(999, REPLICATES)
    seed: int = inferred(0, SEED)

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        return f"cdf of {self.plan(schema).text}"

    def infer(self, release: Release | None = None) -> CDFResults:
        """Infer from a release of this question, or of the same distribution: free, and without any row."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, OfDistribution)
        distribution = theirs.plan(found.schema).distribution(found)
        return CDFResults(distribution, found, self.target, self.replicates, self.seed)


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
    """Distribution function of a column, by group, with a simultaneous band.

    Parameters
    ----------
    column, data, by, where, resolution, target
        As in `quantile`.
    replicates, seed : int
        Size and public seed of the simulation behind the simultaneous band.

    Returns
    -------
    CDF
        Its results have ``.frame()``, ``.quantile(q)``, ``.band_width()`` and ``.plot()``.

    Raises
    ------
    OptionError, SchemaError, UnknownColumnError, FormulaError
        As `quantile`.

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


def largest_error(measured: Measurement) -> float:
    """Largest standard deviation of the noise of a count below a value, in rows."""
    tree = measured.rows
    starts = [2**level - 1 for level in range(tree.depth + 1)]
    variances = (measured.law.variances * np.asarray(measured.steps) ** 2)[: tree.width][starts]
    return float(np.sqrt(fit_tree(np.zeros(tree.width), variances, tree.edges).noise_variance(0.5).max()))
