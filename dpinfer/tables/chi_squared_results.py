"""Results of chi-squared tests on noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.results.drawing import FAINT, given_or_new, ink, restrain, titled
from dpinfer.results.printing import interval_labels, label_texts
from dpinfer.results.testing import Effect, TestResults, check_alpha, checked_truth
from dpinfer.statistics.nulls import NullDistribution, candidates
from dpinfer.tables.chi_squared_inference import (
    CountModel,
    GoodnessOfFit,
    Homogeneity,
    cohens_w,
    cramers_v,
    residual_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from dpinfer.statistics.arrays import Array


NOT_RESOLVED = "The privacy noise hides a margin of the table: the interval is every value that the measure can take."
"""What is said of an effect size whose interval is the whole range."""

_SMALL = 5.0
"""Rows that an expected count has to reach."""

_FAR = 4.0
"""Standard deviations of noise beyond which a stated size of a sample is doubted."""

_DRAWN = 60
"""Cells up to which residuals are drawn with their intervals."""

_HIDDEN = (
    "noise hides a margin: the p-value is that of the projected statistic that does not know the number of rows, the "
    "larger of two fits, and conservative"
)


@dataclass(frozen=True, eq=False, repr=False)
class ChiSquareResults(TestResults):
    """A chi-squared test on noisy counts.

    Unpacks as scipy's results do: statistic and p-value, and for a table also ``dof`` and ``expected_freq``.

    Attributes
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The statistic and its null.
    values : ndarray (d,)
        Noisy counts, the last axis running fastest.
    index : Index
        Label of every cell.
    transposed : bool
        Whether the second column that was named comes first in ``index``, because its margin is fixed.
    """

    model: CountModel = field(kw_only=True)
    values: Array = field(kw_only=True)
    index: pd.Index = field(kw_only=True)
    transposed: bool = field(default=False, kw_only=True)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.statistic, self.pvalue)
        if not isinstance(self.model, GoodnessOfFit):
            yield from (self.dof, self.expected_freq)

    def _labelled(self, numbers: Array) -> pd.Series | pd.DataFrame:
        series = pd.Series(numbers, index=self.index)
        if self.index.nlevels == 1:
            return series
        table = series.unstack(sort=False)  # noqa: PD010  (of a Series)
        return table.T if self.transposed else table

    @property
    def observed_freq(self) -> pd.Series | pd.DataFrame:
        """Noisy counts by level, or as a table."""
        return self._labelled(self.values)

    @property
    def expected_freq(self) -> pd.Series | pd.DataFrame:
        """Counts expected under the hypothesis, by level or as a table."""
        return self._labelled(self.model.expected(self.values))

    def residuals(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return what each cell says.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        simultaneous : bool
            Whether the intervals hold together with the stated confidence; see ``PrivateResults.conf_int``.

        Returns
        -------
        DataFrame
            A row per cell; columns "observed" (noisy), "expected", "difference", "std err" (of the difference under
            the hypothesis, sampling and noise), "std err (noise)", "residual" (difference over std err), and the
            ends of its interval.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        level, together = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        found = residual_table(self.model, self.values, alpha=level, simultaneous=together)
        names = [
            "observed",
            "expected",
            "difference",
            "std err",
            "std err (noise)",
            "residual",
            *interval_labels(alpha),
        ]
        rows = [self.values, found.expected, found.difference, found.standard_error, found.noise_error]
        cells = np.column_stack([*rows, found.standardised, found.lower, found.upper])
        return pd.DataFrame(cells, index=self.index, columns=names)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return `residuals` without the errors of the differences."""
        return self.residuals(alpha).drop(columns=["difference", "std err", "std err (noise)"])

    def effect_size(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V of a table, or Cohen's w of one column, with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        Effect
        """
        model, level = self.model, check_alpha(alpha)
        if isinstance(model, GoodnessOfFit):
            name = "Cohen's w"
            found = cohens_w(self.values, model.probabilities, noise=model.noise, nobs=model.nobs, alpha=level)
        else:
            name, public = "Cramer's V", int(self.nobs) if self.nobs_is_public and self.nobs is not None else None
            found = cramers_v(self.values, model.shape, noise=model.noise, nobs=public, alpha=level)
        flag = "" if bool(np.all(found.resolved)) else NOT_RESOLVED
        return Effect(name, float(found.estimate), float(found.lower), float(found.upper), flag)

    def cramers_v(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V with its interval; see `effect_size`.

        Raises
        ------
        InferenceError
            Where there is one column: Cohen's w, ``effect_size()``, serves there.
        """
        if isinstance(self.model, GoodnessOfFit):
            raise InferenceError("Cramer's V is of two columns; for one, effect_size() gives Cohen's w")
        return self.effect_size(alpha)

    def _explain(self, alpha: float = 0.05) -> list[str]:
        size = self.effect_size(alpha)
        return [
            *super()._explain(alpha),
            f"{size.name} {size.estimate:.3f}, {100 * (1 - alpha):.6g}% interval {size.lower:.3f} to {size.upper:.3f}. "
            f"{size.flag}".rstrip(),
            "Residual is (observed - expected) over its standard error under the null hypothesis, sampling and noise; "
            "its interval is for the population.",
        ]

    def plot_residuals(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str = "C0") -> Axes:
        """Draw the standardised residual of every cell with its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the intervals.
        color : str

        Returns
        -------
        matplotlib.axes.Axes
            Of more than 60 cells the residuals alone are drawn.
        """
        table = self.residuals(alpha)
        place, centre = np.arange(len(table))[::-1], table["residual"].to_numpy()
        ax = given_or_new(ax, 6.5, float(np.clip(0.9 + 0.28 * len(table), 2.4, 14.0)))
        limit = float(stats.norm.isf(alpha / 2))
        ax.axvspan(-limit, limit, color=FAINT, alpha=0.2, lw=0)
        ax.axvline(0.0, color=ink(), lw=0.8)
        if len(table) <= _DRAWN:
            lower, upper = table.iloc[:, -2].to_numpy(), table.iloc[:, -1].to_numpy()
            ax.hlines(place, lower, upper, color=color, lw=1.6)
        ax.plot(centre, place, "o", color=color, ms=4)
        if len(table) <= _DRAWN:
            ax.set_yticks(place, label_texts(table.index))
        ax.set_xlabel(f"standardised residual ({1 - alpha:.0%} of one cell in the shade if the hypothesis holds)")
        ax.set_ylabel(", ".join(str(name) for name in self.index.names))
        titled(ax, self.hypothesis)
        restrain(ax, left=False)
        return ax


def count_flags(
    model: CountModel, values: Array, public: int | None, statistic: float, distribution: NullDistribution | None
) -> tuple[str, ...]:
    """Say what a reader of a chi-squared test should be warned of.

    Parameters
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
    values : ndarray (d,)
        Noisy counts.
    public : int or None
        The number of rows where it is public.
    statistic : float
    distribution : NullDistribution or None
        None where the p-value is asymptotic.
    """
    found = []
    if not np.isfinite(statistic):
        found.append("the noise is too large for the statistic to be computed: the p-value is 1")
    spread = model.noise.variance**0.5
    few = int((model.expected(values) < max(_SMALL, spread)).sum())
    if few:
        so = "there is little to see in those cells" if distribution else "the limit may be far off: null='simulated'"
        below = f"{few} of {values.size} expected counts are below 5 or below the noise"
        found.append(f"{below} (standard deviation {spread:.4g}): {so}")
    if values.sum() < 1 and public is None:
        found.append("the noisy number of rows is below one: it was taken as one")
    elif (values < 0).any():
        found.append(f"{int((values < 0).sum())} noisy counts are below zero")
    if isinstance(model, Homogeneity) and model.sizes is not None:
        away = np.abs(values.reshape(model.shape).sum(axis=1) - model.sizes)
        if (away > _FAR * spread * model.shape[1] ** 0.5).any():
            found.append(
                "the stated sizes of samples are far from the noisy ones: are they in the order of the levels?"
            )
    if distribution is not None and len(candidates(model, values[None])) > 1:
        found.append(_HIDDEN)
    if not isinstance(model, GoodnessOfFit):
        table = values.reshape(model.shape)
        low = sum(int((table.sum(axis=axis) < 1).sum()) for axis in (0, 1))
        if low:
            found.append(f"{low} noisy margins are below one row: they were taken as one")
    if distribution is not None and distribution.failed:
        found.append(f"{distribution.failed} simulated draws could not be evaluated: they count against rejection")
    return tuple(found)
