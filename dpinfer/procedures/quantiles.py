"""Quantiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpinfer.inference.quantiles import METHODS
from dpinfer.kernel.stage import Context, Data, Place, Slot, Stage
from dpinfer.procedures.distribution import OfDistribution, largest_error
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TRUTH, inferred, measured, one_of
from dpinfer.procedures.table_axes import axes_of
from dpinfer.results.quantiles import quantile_results, read_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

__all__ = ["Quantile", "median", "quantile"]

CHOICES = ("auto", "exponential", "tree")

_CHOICE_SHARE, _LOST_SHARE = Fraction(1, 4), Fraction(9, 10)
"""Shares of the price for choosing quantiles, and where the tree could not refute any value; the rest is the tree's."""

_REFUTES = 1.96
"""Standard deviations of noise within which all ranks must be for a tree that refutes nothing."""

_RANKS = 2**20
"""Probabilities are rounded to multiples of one over this where a quantile is chosen."""


@dataclass(frozen=True, eq=False)
class Quantile(OfDistribution):
    """Quantiles of a column, by group. See `quantile`."""

    procedures = ("quantile",)

    probabilities: tuple[float, ...] = inferred((0.5,))
    method: str = measured("auto", one_of(CHOICES))
    inference: str = inferred("auto", one_of(METHODS))
    continuous: bool = inferred(False, TRUTH)

    def check_options(self) -> None:
        """Refuse invalid probabilities."""
        read_probabilities(self.probabilities)

    @property
    def _chosen(self) -> bool:
        return self.method == "exponential" or (self.method == "auto" and len(self.probabilities) == 1)

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        shown = [f"{p:g}" for p in self.probabilities[:5]] + (["..."] if len(self.probabilities) > 5 else [])
        return f"quantile {', '.join(shown)} of {self.plan(schema).text}"

    def resolve(self, context: Context) -> Self:
        """Return the same question with its number of leaves and its method."""
        return replace(super().resolve(context), method="exponential" if self._chosen else "tree")

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Give chosen quantiles a share of the price, and the rest to the tree, which intervals come from."""
        if not self._chosen:
            return (Slot(),)
        tree, share = self.plan(context.schema).tree, self._choice_share(context)
        points = tree.size * len(self.probabilities)
        return Slot(share, points), Slot(1 - share, tree.size * tree.width)

    def _choice_share(self, context: Context) -> Fraction:
        """Return the share of the price for the choice: a function of the price and the public number of rows."""
        if context.nobs is None:
            return _CHOICE_SHARE
        tree = replace(self, method="tree")
        price = context.privacy / float(1 / (1 - _CHOICE_SHARE))
        noise = largest_error(tree.measurement(price, schema=context.schema, neighbors=context.neighbors))
        ranks = context.nobs * max(max(p, 1 - p) for p in self.probabilities)
        return _LOST_SHARE if ranks <= _REFUTES * noise else _CHOICE_SHARE

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the quantiles, where they are chosen, and for the tree of counts."""
        if not (self._chosen and place == 0):
            return super().stage(place, context, released)
        exact = tuple(Fraction(round(p * _RANKS), _RANKS) for p in self.probabilities)
        return Stage(Place(self.plan(context.schema).points, exact))

    def check_release(self, release: Release) -> None:
        """Refuse a release that holds no such tree, or chosen values that are none of the grid."""
        super().check_release(release)
        for stage in release.choices:
            self.plan(release.schema).check_points(stage)

    def _explained(self, planned: Measurement) -> list[str]:
        if not self._chosen:
            return super()._explained(planned)
        choice = planned.stages[0]
        missed = np.sqrt(2) * max(choice.law.scales) * choice.steps[0]
        line = f"choice       a chosen quantile misses its rank by about {missed:.4g} rows"
        return [*super()._explained(planned), line]

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question, or of the same distribution: free, and without any row."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, OfDistribution)
        plan, selected = theirs.plan(found.schema), None
        if found.choices and isinstance(theirs, Quantile) and theirs.probabilities == self.probabilities:
            selected = plan.chosen_values(found.choices[0])
        return quantile_results(
            plan.distribution(found),
            found,
            self.probabilities,
            selected=selected,
            inference=self.inference,
            target=self.target,
            continuous=self.continuous,
        )

    @classmethod
    def infer_release(cls, release: Release, *, q: object = None, **options: Any) -> DescriptionResults:
        """Infer what a release was made for, with other options of the inference, or other quantiles.

        Raises
        ------
        OptionError
            If the inference has no such option, or an option has no such value.
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
    """Quantiles of a column, by group.

    Parameters
    ----------
    column : str
        A Real or Integer column. Values are clamped to their declared bounds.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release that holds the distribution of the column. Nothing is read or spent here.
    q : float or sequence of float
        Probabilities from 0 to 1.
    by : str or sequence of str
        Groups: Category, Boolean or short Integer columns, or conditions.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    method : {"auto", "exponential", "tree"}
        "tree" reads all quantiles from one noisy tree of counts: the distribution function. "exponential" chooses each
        quantile by the exponential mechanism besides, for a quarter of the price: a much better estimate where rows are
        few. Where the number of rows is public and so small that the tree could refute no value, it is nine tenths.
        "auto" is "exponential" for one quantile and "tree" for several.
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
    """Median of a column, by group: `quantile` with ``q=0.5``.

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
        As `quantile`.

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
