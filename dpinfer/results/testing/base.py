"""What every test returns: statistic, p-value, null distribution, guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.results.laws import draw_law, dress_law
from dpinfer.results.printing import Exported, PrivateSummary, cell_table, figure, label_texts, summary_of
from dpinfer.results.style import MARKED, given_or_new
from dpinfer.results.wording import (
    charge_notes,
    column_notes,
    format_count,
    guarantee,
    guarantee_facts,
    title_guarantee,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from statsmodels.iolib.table import SimpleTable

    from dpinfer.inference.nulls import NullDistribution
    from dpinfer.release.release import AnyRelease

    Array = NDArray[np.float64]

__all__ = ["Effect", "TestResults"]


@dataclass(frozen=True)
class Effect:
    """An effect size of the population, with its interval.

    Attributes
    ----------
    name : str
    estimate : float
        The bias of sampling and noise taken off; at least 0.
    lower, upper : float
    flag : str
        A warning where the noise hides what the measure divides by; otherwise empty.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    flag: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class TestResults(Exported, ABC):
    """One hypothesis test on a release: a statistic, its p-value, and how both came about.

    Unpacks as scipy's results do: ``statistic, pvalue = results``.

    Attributes
    ----------
    title : str
        Name of the test.
    hypothesis : str
        What is tested, in words.
    statistic : float
    pvalue : float
        Valid with the privacy noise counted.
    release : Release or CombinedRelease
        What was measured: cost, neighbours, charge.
    statistic_name : str
        What tables call the statistic.
    dof : float or None
        Degrees of freedom of the statistic, where it has them.
    alternative : {"two-sided", "greater", "less", ""}
        Empty where the test has no sides.
    distribution : NullDistribution or None
        The simulated null distribution; None where the p-value is exact or asymptotic.
    null : {"simulated", "asymptotic", "exact"}
        Where the p-value comes from.
    nobs : float or None
        Number of rows as released or public.
    nobs_is_public : bool
    flags : tuple of str
        Sentences that warn the reader; empty when all is well.
    notes : tuple of str
        Sentences printed below the tables, besides those on null and guarantee.
    """

    __test__ = False  # its name is not that of a test case

    title: str
    hypothesis: str
    statistic: float
    pvalue: float
    release: AnyRelease = field(repr=False)
    statistic_name: str = "Statistic"
    dof: float | None = None
    alternative: str = ""
    distribution: NullDistribution | None = field(default=None, repr=False)
    null: str = "simulated"
    nobs: float | None = None
    nobs_is_public: bool = False
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pvalue_error(self) -> float:
        """Monte Carlo standard error of the p-value; 0 where it was not simulated."""
        return 0.0 if self.distribution is None else self.distribution.error

    @property
    def df(self) -> float | None:
        """Another name of ``dof``, as statsmodels has it."""
        return self.dof

    def __iter__(self) -> Iterator[float]:
        yield self.statistic
        yield self.pvalue

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.title} ({self.hypothesis}), statistic {self.statistic:.4g}, "
            f"p-value {self._pvalue_text()}, {title_guarantee(self.release)}>"
        )

    @abstractmethod
    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return what the statistic was computed from, as a table: cells, groups or coefficients."""

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the test as a table: hypothesis, statistic, p-value, guarantee, and `frame` below.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        PrivateSummary
            It has as_text(), as_html(), as_latex() and as_markdown().
        """
        left = [
            ("Null hypothesis:", self.hypothesis),
            *([("Alternative:", self.alternative)] if self.alternative else []),
            *guarantee_facts(self.release),
            ("No. Observations:", format_count(self.nobs, public=self.nobs_is_public)),
        ]
        right = [
            (f"{self.statistic_name}:", f"{self.statistic:.6g}"),
            *([] if self.dof is None else [("Df:", f"{self.dof:.6g}")]),
            ("P-value:", self._pvalue_text()),
            ("Null:", self.null),
            *([] if self.distribution is None else [("Simulated draws:", f"{self.distribution.draws:,}")]),
        ]
        table = _table(self.frame(alpha))
        return summary_of(self.title, left, right, table, self._explain(alpha), self.flags)

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Draw the simulated null distribution and the observed statistic.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        color : str

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InferenceError
            Where nothing was simulated.
        """
        sample = self._sample()
        ax = given_or_new(ax, 6.5, 3.8)
        finite = sample[np.isfinite(sample)]
        top = float(np.quantile(finite, 0.999)) if finite.size else 1.0
        edges = np.linspace(min(float(finite.min(initial=0.0)), 0.0), max(top, 1e-300), 61)
        ax.hist(finite, bins=edges.tolist(), density=True, color=color, alpha=0.5, label="under the null hypothesis")
        drawn = self.distribution.statistic if self.distribution is not None else self.statistic
        ax.axvline(drawn, color=MARKED, lw=2, label=f"observed, p-value {self._pvalue_text()}")
        dress_law(ax, self.statistic_name, self.hypothesis)
        return ax

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the null distribution, simulated or in the limit, and the observed statistic; see `plot_null`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        if self.distribution is not None and np.isfinite(self.distribution.sample).any():
            return self.plot_null(ax)
        ax = given_or_new(ax, 6.5, 3.8)
        limit = stats.chi2(self.dof) if self.null == "asymptotic" and self.dof is not None else None
        draw_law(ax, self.statistic, limit, self._pvalue_text())
        dress_law(ax, self.statistic_name, self.hypothesis)
        return ax

    def _sample(self) -> Array:
        if self.distribution is None:
            raise InferenceError(f"nothing was simulated: the p-value is {self.null}")
        return self.distribution.sample

    def _pvalue_text(self) -> str:
        if self.distribution is None or self.null != "simulated":
            return f"{self.pvalue:.4g}"
        if self.distribution.draws and self.distribution.exceeding == 0:
            return f"{self.pvalue:.2g} (no draw as large)"
        return f"{self.pvalue:.4g} +- {self.pvalue_error:.1g}"

    def _explain(self, alpha: float = 0.05) -> list[str]:  # noqa: ARG002  (of subclasses)
        how = {
            "simulated": "The p-value is (1 + draws at least as large) / (draws + 1), from releases simulated under "
            "the null hypothesis with sampling and privacy noise alike",
            "asymptotic": "The p-value refers to the limiting distribution with the privacy noise counted.",
            "exact": "The p-value is exact: the law of the count and of the privacy noise is known.",
        }[self.null]
        if self.distribution is not None and self.null == "simulated":
            how += f" (public seed {self.distribution.seed}; +- is its Monte Carlo standard error)."
        return [guarantee(self.release), how, *self.notes, *column_notes(self.release), *charge_notes(self.release)]


def _table(frame: pd.DataFrame) -> SimpleTable:
    cells = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    return cell_table(cells, [str(name) for name in frame.columns], label_texts(frame.index))


def _cell(value: object) -> str:
    return figure(float(value)) if isinstance(value, float | int | np.number) else str(value)
