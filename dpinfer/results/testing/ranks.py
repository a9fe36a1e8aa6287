"""Results of rank and distribution tests of noisy counts of leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError
from dpinfer.inference.testing.distributions import GivenDistribution, TwoDistributions
from dpinfer.inference.testing.leaf_fits import HIDING
from dpinfer.inference.testing.rank_association import RankAssociation
from dpinfer.inference.testing.rank_effects import mean_ranks, rank_biserial, rank_correlation, superiority
from dpinfer.inference.testing.ranks import GroupRanks, SignedRanks
from dpinfer.inference.testing.scores import below
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.printing import interval_labels
from dpinfer.results.testing.base import Effect, TestResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.inference.testing.rank_effects import LeafEffect
    from dpinfer.numerics.arrays import Array

__all__ = ["RankModel", "RankTestResults", "rank_flags"]

RankModel = GroupRanks | TwoDistributions | SignedRanks | GivenDistribution | RankAssociation

_FEW_ROWS = 10.0
"""Rows of a group below which intervals of effects, which are those of large samples, are doubted."""

_HIDDEN = "not determined: noise hides the rows of {}, and little can be found"


@dataclass(frozen=True, eq=False, repr=False)
class RankTestResults(TestResults):
    """A rank or distribution test of values cut into leaves; unpacks into statistic and p-value.

    ``statistic`` is scipy's, computed from the noisy counts: U of the first group, H, D, the signed-rank sum, or
    Spearman's correlation. The p-value ranks ``zstatistic`` (of Kolmogorov and Smirnov's tests the standardised
    distance), which counts the noise and weighs leaves by how far it hides them.

    Attributes
    ----------
    model : GroupRanks, TwoDistributions, SignedRanks, GivenDistribution or RankAssociation
        The statistic and its null.
    values : ndarray (1, cells)
        Noisy counts.
    labels : tuple of tuples
        Of the groups and leaves.
    names : tuple of str
        What was compared: groups first.
    """

    model: RankModel = field(kw_only=True)
    values: Array = field(kw_only=True)
    labels: tuple[tuple[Any, ...], ...] = field(kw_only=True)
    names: tuple[str, ...] = field(kw_only=True)

    @staticmethod
    def statistic_of(model: RankModel, values: Array) -> dict[str, Any]:
        """Scipy's statistic of noisy counts (1, cells), and its name."""
        if isinstance(model, GroupRanks):
            if model.shape[0] > 2:
                return {"statistic": float(model.statistic(values)[0]), "statistic_name": "H statistic"}
            first, second = values.reshape(2, -1)
            return {"statistic": float(first @ below(second)), "statistic_name": "U statistic"}
        if isinstance(model, SignedRanks):
            return {"statistic": _signed_sum(model, values), "statistic_name": "W statistic"}
        if isinstance(model, RankAssociation):
            found = rank_correlation(model, values, 0.05)
            return {"statistic": float(found.estimate[0]), "statistic_name": "Rank correlation"}
        table, place = _functions(model, values), int(model.where(values)[0])
        apart = float(table[0][place] - table[1][place])
        signed = {"two-sided": abs(apart), "greater": apart, "less": -apart}[model.alternative]
        return {"statistic": signed, "statistic_name": "D statistic"}

    @property
    def zstatistic(self) -> float:
        """What is compared with its simulated null: signed, of two groups, signs or two columns."""
        if isinstance(self.model, GroupRanks) and self.model.shape[0] > 2:
            return float(self.model.statistic(self.values)[0])
        if isinstance(self.model, TwoDistributions | GivenDistribution):
            return float(self.model.statistic(self.values)[0])
        return float(self.model.signed(self.values)[0])

    @property
    def statistic_location(self) -> Any:
        """The leaf up to which the distribution functions are farthest apart, of Kolmogorov and Smirnov's tests.

        Raises
        ------
        InferenceError
            Of another test.
        """
        if not isinstance(self.model, TwoDistributions | GivenDistribution):
            raise InferenceError("a location is that of a distance: ks_1samp and ks_2samp have one")
        return self.labels[-1][int(self.model.where(self.values)[0])]

    def effect_size(self, alpha: float = 0.05) -> Effect:
        """Return the effect size of the population, with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        Effect
            Of two groups ``P(first > second) + P(equal) / 2``; of signed ranks the rank-biserial correlation; of two
            columns Spearman's. The interval is all that is possible where noise hides the rows.

        Raises
        ------
        InferenceError
            Of several groups, whose mean ranks ``frame`` has, and of a distance, which ``frame`` has leaf by leaf.
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        name, found, least = self._effect(check_alpha(alpha))
        lower, upper = float(found.lower[0]), float(found.upper[0])
        flag = "Not determined: noise hides it." if lower <= least and upper >= 1 else ""
        return Effect(name, float(found.estimate[0]), lower, upper, flag)

    @property
    def bse(self) -> float:
        """Standard error of the effect size, from sampling and noise."""
        return float(self._effect(0.05)[1].error[0])

    @property
    def bse_noise(self) -> float:
        """Standard error of the effect size from privacy noise alone."""
        return float(self._effect(0.05)[1].noise_error[0])

    def _effect(self, alpha: float) -> tuple[str, LeafEffect, float]:
        model = self.model
        if isinstance(model, GroupRanks) and model.shape[0] == 2:
            return "P(first > second) + P(equal)/2", superiority(model, self.values, alpha), 0.0
        if isinstance(model, SignedRanks):
            return "Rank-biserial correlation", rank_biserial(model, self.values, alpha), -1.0
        if isinstance(model, RankAssociation):
            return "Spearman's correlation", rank_correlation(model, self.values, alpha), -1.0
        raise InferenceError("an effect size is of two groups, of signed ranks or of two columns; frame() has the rest")

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return what the statistic compares.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the interval, where there is one.

        Returns
        -------
        DataFrame
            Of ranks of groups a row per group: "count" (noisy), "mean rank" among all rows as a share, its standard
            error, and that of noise alone. Of distribution functions a row per leaf: both functions at its end, and
            their difference with standard errors. Of signed ranks noisy counts below, at and above zero. Of two columns
            the correlation with its interval.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        level, model = check_alpha(alpha), self.model
        if isinstance(model, GroupRanks):
            table = self.values.reshape(1, *model.shape)
            mean, error, noise = mean_ranks(table, model.noise.variance)
            columns = {
                "count": table[0].sum(axis=1), "mean rank": mean[0], "std err": error[0], "std err (noise)": noise[0]
            }  # fmt: skip
            return pd.DataFrame(columns, index=pd.Index(list(self.labels[0]), name=self.names[0]))
        if isinstance(model, SignedRanks):
            half = self.values.shape[1] // 2
            parts = self.values[0, :half].sum(), self.values[0, half], self.values[0, half + 1 :].sum()
            spread = np.sqrt(model.noise.variance * np.array([half, 1, half]))
            index = pd.Index(list(self.labels[0]), name=self.names[0])
            return pd.DataFrame({"count": parts, "std err (noise)": spread}, index=index)
        if isinstance(model, RankAssociation):
            found, (lower, upper) = rank_correlation(model, self.values, level), interval_labels(alpha)
            heads = ["correlation", "std err", "std err (noise)", lower, upper]
            return pd.DataFrame(dict(zip(heads, found, strict=True)), index=pd.Index([" and ".join(self.names)]))
        first, second, error, noise = _functions(model, self.values)
        two = len(self.labels) > 1
        heads = [f"{self.names[0]} = {one}" for one in self.labels[0]] if two else ["observed", "given"]
        columns = {
            heads[0]: first, heads[1]: second, "difference": first - second, "std err": error, "std err (noise)": noise
        }  # fmt: skip
        return pd.DataFrame(columns, index=pd.Index(list(self.labels[-1]), name=self.names[-1]))

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Draw the simulated null distribution and the observed statistic; see `TestResults.plot_null`."""
        axes = super().plot_null(ax, color=color)
        if isinstance(self.model, TwoDistributions | GivenDistribution):
            axes.set_xlabel("standardised distance")
        elif not (isinstance(self.model, GroupRanks) and self.model.shape[0] > 2):
            axes.set_xlabel({"two-sided": "absolute z", "greater": "z", "less": "-z"}[self.alternative])
        return axes

    def _explain(self, alpha: float = 0.05) -> list[str]:
        found = super()._explain(alpha)
        several = isinstance(self.model, GroupRanks) and self.model.shape[0] > 2
        if several or isinstance(self.model, TwoDistributions | GivenDistribution):
            return found
        size = self.effect_size(alpha)
        level = f"{100 * (1 - alpha):.6g}%"
        told = f"{size.name} {size.estimate:.3f}, {level} interval {size.lower:.3f} to {size.upper:.3f}. {size.flag}"
        return [*found, told.rstrip()]


def _signed_sum(model: SignedRanks, values: Array) -> float:
    """Sum of the ranks above zero, or the smaller of both sums, as scipy reports it."""
    counts, apart = model.folded(values)
    size, shares = model.shares(values)
    used = shares[:, 1:]
    ranks = size[:, None] * (below(used) + (shares[:, :1] if model.zeros == "pratt" else 0.0)) + 0.5
    above = float(np.einsum("nk,nk->n", ranks, 0.5 * (counts[:, 1:] + apart))[0])
    under = float(np.einsum("nk,nk->n", ranks, 0.5 * (counts[:, 1:] - apart))[0])
    return min(above, under) if model.alternative == "two-sided" else above


def _functions(model: TwoDistributions | GivenDistribution, values: Array) -> tuple[Array, Array, Array, Array]:
    """Two distribution functions at the ends of the leaves, and standard errors of their difference: each (m,)."""
    given = isinstance(model, GivenDistribution)
    table = values.reshape(1 if given else 2, -1)
    public = model.nobs if isinstance(model, GivenDistribution) else None
    sizes = np.maximum(table.sum(axis=1) if public is None else np.array([float(public)]), 1.0)
    found = np.cumsum(table, axis=1) / sizes[:, None]
    steps = np.arange(1, table.shape[1] + 1)
    part = np.clip(found, 0.0, 1.0)
    noisy = steps * (1 - 2 * part) + table.shape[1] * part**2
    noise = (model.noise.variance * np.maximum(noisy, 0.0) / sizes[:, None] ** 2).sum(axis=0)
    sampling = (part * (1 - part) / sizes[:, None]).sum(axis=0)
    second = np.cumsum(model.shares) if isinstance(model, GivenDistribution) else found[1]
    return found[0], second, np.sqrt(sampling + noise), np.sqrt(noise)


def rank_flags(model: RankModel, values: Array, labels: tuple[tuple[Any, ...], ...]) -> tuple[str, ...]:
    """Say what a reader of a rank test should be warned of, from noisy counts (1, cells)."""
    grouped = isinstance(model, GroupRanks | TwoDistributions)
    table = values.reshape(len(labels[0]) if grouped else 1, -1)
    totals, noise = table.sum(axis=1), np.sqrt(model.noise.variance * table.shape[1])
    heads = [str(one) for one in labels[0]] if grouped else ["the data"]
    found = []
    hidden = [head for head, total in zip(heads, totals, strict=True) if total < HIDING * noise]
    if isinstance(model, TwoDistributions | RankAssociation) and bool(model.hidden(values)[0]):
        what = "a group" if grouped else "the data, or how a column is spread"
        found.append(_HIDDEN.format(what) + ": the p-value is 1")
    elif hidden:
        found.append(_HIDDEN.format(", ".join(hidden)))
    if (totals < _FEW_ROWS).any():
        found.append(
            f"fewer than {_FEW_ROWS:.0f} rows by the noisy counts: errors and intervals are for larger numbers"
        )
    return tuple(found)
