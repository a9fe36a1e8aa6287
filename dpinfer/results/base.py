"""Results of a release, as a statsmodels user expects them: the base of regressions, descriptions and families."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.display.report import number
from dpinfer.errors import UnknownColumnError
from dpinfer.results.drawing import IntervalFigure, PlottedIntervals, draw_intervals
from dpinfer.results.estimates import PrivateEstimates, build_summary, build_summary2, summary_frame
from dpinfer.results.margins import PublicGrids, margins_frame, plot_margins
from dpinfer.results.multiple_tests import pairwise_tests, term_tests
from dpinfer.results.prediction import CONSTANTS, MeanPrediction, design_rows
from dpinfer.results.printing import (
    Exported,
    cell_table,
    column_labels,
    column_notes,
    format_nobs,
    guarantee,
    guarantee_facts,
    interval_labels,
    short_guarantee,
    summary_of,
    title_guarantee,
)
from dpinfer.results.testing import check_alpha

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from statsmodels.iolib.summary2 import Summary as Summary2
    from statsmodels.stats.contrast import MultiCompResult, WaldTestResults

    from dpinfer.release import Release
    from dpinfer.results.printing import PrivateSummary
    from dpinfer.statistics.inference import BatchEstimates

__all__ = ["Estimates", "PrivateResults", "coefficient_frame", "plot_coefficients"]


def coefficient_frame(results: PrivateEstimates, alpha: float = 0.05) -> pd.DataFrame:
    """Return estimates, intervals, and the part of each interval that sampling accounts for.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    alpha : float
        One minus the confidence.

    Returns
    -------
    DataFrame (p, 5)
        Columns "estimate", "lower", "upper", "sampling_lower", "sampling_upper", by term.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.

    Notes
    -----
    Each arm of an interval is shortened by the square root of the sampling share of the variance. For a Wald
    interval that is exactly the interval without privacy noise; for another method it is a drawing. An
    infinite arm has the normal quantile times the sampling standard error as its sampling part.
    """
    ends = results.conf_int(check_alpha(alpha))
    estimate = results.params.to_numpy()
    sampling = results.bse_sampling.to_numpy()
    ratio = sampling / results.bse.to_numpy()
    fallback = stats.norm.isf(alpha / 2) * sampling
    arms = {}
    for name, sign, end in (("sampling_lower", -1.0, ends[0]), ("sampling_upper", 1.0, ends[1])):
        arm = np.maximum(sign * (end.to_numpy() - estimate), 0.0)
        bounded = np.isfinite(arm)
        arms[name] = estimate + sign * np.where(bounded, np.where(bounded, arm, 0.0) * ratio, fallback)
    columns = {"estimate": estimate, "lower": ends[0], "upper": ends[1], **arms}
    return pd.DataFrame(columns, index=results.params.index)


def plot_coefficients(
    results: PrivateEstimates,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
    terms: Sequence[str] | None = None,
    color: str | None = None,
    legend: bool = True,
    zero: bool = True,
) -> Axes:
    """Draw ``coefficient_frame``; parameters, returns and errors as ``PrivateResults.plot_coefficients``.

    ``zero`` says whether zero is marked, and always within the axis.
    """
    frame = _selected(coefficient_frame(results, alpha), terms)
    frame.index = pd.Index(column_labels(results.release, frame.index))
    (response,) = column_labels(results.release, [results.response])
    title = f"{response}: {title_guarantee(results.release)}"
    label = f"coefficient ({results.inference.method} inference)"
    return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=zero, label=label, title=title)


def _selected(frame: pd.DataFrame, terms: Sequence[str] | None) -> pd.DataFrame:
    if terms is None:
        slopes = [name for name in frame.index if name not in CONSTANTS]
        return frame.loc[slopes or list(frame.index)]
    for name in terms:
        if name not in frame.index:
            raise UnknownColumnError(name, frame.index, "the coefficients")
    return frame.loc[list(terms)]


class Estimates(PlottedIntervals, Exported):
    """Estimates from one release, with statsmodels' names.

    Parameters
    ----------
    estimate : callable
        ``estimate(alpha)`` returns `BatchEstimates` of one release.
    release : Release

    Attributes
    ----------
    release : Release
    flags : tuple of str
        Warnings.
    """

    def __init__(self, estimate: Callable[[float], BatchEstimates], release: Release) -> None:
        self._estimate, self.release = estimate, release

    @cached_property
    def _found(self) -> BatchEstimates:
        return self._estimate(0.05)

    def _series(self, values: object) -> pd.Series[float]:
        return pd.Series(values, index=list(self._found.names))

    @property
    def params(self) -> pd.Series[float]:
        """Estimates by name."""
        return self._series(self._found.params[0])

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors, privacy noise included."""
        return self._series(self._found.bse[0])

    @property
    def pvalues(self) -> pd.Series[float]:
        """P-values of zero."""
        return self._series(self._found.pvalues[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings of the inference."""
        return ("the inference is flagged as unreliable",) if bool(self._found.flagged[0]) else ()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return intervals of level ``1 - alpha``: a row for each estimate, columns 0 and 1."""
        found = self._estimate(alpha)
        return pd.DataFrame(found.intervals[0], index=list(found.names))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the one table behind `summary`."""
        ends, (lower, upper) = self.conf_int(alpha), interval_labels(alpha)
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "P>|z|": self.pvalues,
                lower: ends[0],
                upper: ends[1],
            }
        )

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the table as text, HTML, LaTeX or markdown, with the guarantee."""
        frame = self.summary_frame(alpha)
        cells = [[number(value) for value in row] for row in frame.to_numpy()]
        table = cell_table(cells, list(frame.columns), column_labels(self.release, self.params.index))
        title = str(self.release.question["text"])
        notes = [guarantee(self.release), *column_notes(self.release)]
        return summary_of(title, guarantee_facts(self.release), [], table, notes, self.flags)

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        ends = self.conf_int(alpha)
        frame = pd.DataFrame({"estimate": self.params, "lower": ends[0], "upper": ends[1]})
        frame.index = pd.Index(column_labels(self.release, frame.index))
        title = f"{self.release.question['text']}: {title_guarantee(self.release)}"
        return IntervalFigure(frame, "estimate", title)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._found.names)}>"


class PrivateResults(Exported, PublicGrids, PrivateEstimates):
    """Estimates, intervals and tests from a release, with statsmodels' names and labels.

    Every number comes from one inference, so that intervals, p-values, tests, tables and plots agree. The
    object holds released quantities only: no frame, no rows, no residuals; a pickle of it cannot leak. Examples are on
    `docs/where-to-look.md`.

    Parameters
    ----------
    inference : Inference
        Estimates with sampling and noise covariance, and the method of inference.
    release : Release or CombinedRelease
        Where they come from: cost, neighbours, charge.
    model_name : str
        What tables call the model.
    response : str
        Name of the response.
    notes : sequence of str
        Sentences to print below the tables.
    inverse_link : callable, optional
        A monotone function from linear predictor to mean, used by predictions; the identity if None.
    design : FormulaDesign, optional
        The formula's design, for predictions from columns of the schema and for tests of terms.

    Attributes
    ----------
    nobs : float
        Number of rows as released or public; AttributeError where it is neither.
    df_resid, df_model : float
        Degrees of freedom of the inference (infinite for a normal reference), and number of coefficients
        without the constant.
    scale, rsquared, rsquared_adj : float
        Error variance and coefficients of determination; AttributeError where the inference has none.
    fvalue, f_pvalue : float
        The joint test of all coefficients but the constant.
    use_t : bool
        Whether the reference is a t distribution.

    Raises
    ------
    InferenceError
        Where the inference is malformed or its covariance is not positive definite.

    Notes
    -----
    The variance of an estimate is sampling variance plus privacy-noise variance. ``llf``, ``aic``, ``bic``,
    ``resid`` and ``fittedvalues`` raise AttributeError: they need rows.
    """

    def __repr__(self) -> str:
        return (
            f"<PrivateResults: {self._model_name} of {self._response}, {len(self.params)} coefficients, "
            f"{self._inference.method}, {title_guarantee(self._release)}>"
        )

    # Predictions

    def get_prediction(self, exog: object) -> MeanPrediction:
        """Return predicted means at public design points, with standard errors and intervals.

        Parameters
        ----------
        exog : DataFrame, dict or array (m, p)
            Columns that the formula reads, such as ``{"age": [30, 40], "sex": "b"}``; or columns of the design by
            parameter name (a constant may be left out), which come first where all are there; or an array with
            the columns in the order of the parameters. Values may lie beyond declared bounds. Never rows of the
            confidential data.

        Returns
        -------
        MeanPrediction
            ``predicted_mean``, ``conf_int(alpha)``, ``summary_frame(alpha)``.

        Raises
        ------
        UnknownColumnError
            Where a column that the formula reads, or a parameter, is missing.
        OptionError
            Where the columns are not numbers or declared levels, or have the wrong shape.
        FormulaError
            Where a term is not defined at a point, as ``log(age)`` at 0.
        """
        rows, index = design_rows(exog, self._inference.names, self._design)
        return MeanPrediction(self._inference, rows, index, self._inverse_link)

    def predict(self, exog: object) -> pd.Series:
        """Return predicted means at public design points.

        Parameters
        ----------
        exog : DataFrame, dict or array (m, p)
            As in ``get_prediction``.

        Returns
        -------
        Series (m,)
            Means, labelled as the rows of ``exog``.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As ``get_prediction``.
        """
        return self.get_prediction(exog).predicted_mean

    # Terms of the formula

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Sequence[tuple[str, object]] | None = None,
        combine_terms: Sequence[str] | None = None,
        scalar: bool = True,
    ) -> WaldTestResults:
        """Test jointly, for every term of the formula, that all its coefficients are zero.

        Parameters
        ----------
        skip_single : bool
            Whether to leave out terms with a single coefficient.
        extra_constraints : list of (str, constraints), optional
            Further tests: a name, and restrictions as in ``t_test``.
        combine_terms : list of str, optional
            Each text makes a joint test of all terms whose names contain it.
        scalar : bool
            Give statistics as floats, or as arrays (1, 1).

        Returns
        -------
        statsmodels.stats.contrast.WaldTestResults
            ``table`` with a row for each term and columns "statistic", "pvalue", "df_constraint" (and "df_denom"
            for F); ``summary_frame()``. P-values are those of the inference. Results without a formula have a row
            for each coefficient.

        Raises
        ------
        OptionError
            Where restrictions cannot be read, or no term contains a text.
        """
        return term_tests(
            self,
            self._design,
            skip_single=skip_single,
            extra_constraints=extra_constraints,
            combine_terms=combine_terms,
            scalar=scalar,
        )

    def t_test_pairwise(
        self,
        term_name: str,
        method: str | Sequence[str] = "hs",
        alpha: float = 0.05,
        factor_labels: Sequence[str] | None = None,
    ) -> MultiCompResult:
        """Compare every two levels of a categorical term, with p-values corrected for their number.

        Parameters
        ----------
        term_name : str
            A term that is one factor, such as ``"C(race)"``, under any contrasts.
        method : str or list of str
            Corrections of ``statsmodels.stats.multitest.multipletests``.
        alpha : float
            Level at which the corrected tests reject.
        factor_labels : list of str, optional
            Labels of the levels, in declared order; by default the levels.

        Returns
        -------
        statsmodels.stats.contrast.MultiCompResult
            ``result_frame``, a row for each pair: effect, standard error, statistic, p-value and interval from the
            inference, then "pvalue-hs" and "reject-hs"; ``contrasts`` (k, p).

        Raises
        ------
        OptionError
            Where the term is no factor by itself, or an option has no such value.
        """
        return pairwise_tests(self, self._design, term_name, method=method, alpha=alpha, factor_labels=factor_labels)

    # Tables and plots

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the one table behind text, HTML, LaTeX, markdown and plots.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            One row a term; columns "coef", "std err", "std err (sampling)", "std err (noise)", "t" and
            "P>|t|" ("z" and "P>|z|" for a normal reference; "P (score)" and so on where the p-value is not
            Wald's), "[0.025", "0.975]" (for alpha = .05) and "noise share" (0 to 1); for regressions by iterations
            "bias bound", what clipping may have biased the coefficient by at most, which the interval counts.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        return summary_frame(self, alpha)

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> PrivateSummary:
        """Return the summary: header, coefficients, guarantee, warnings.

        Parameters
        ----------
        yname : str, optional
            Another name for the response.
        xname : sequence of str, length p, optional
            Other names for the coefficients.
        title : str, optional
            Another title.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        PrivateSummary
            A statsmodels ``Summary``; it has as_text(), as_html(), as_latex(), as_markdown() and as_csv().
            It shows no date, so that the same release always prints the same.

        Raises
        ------
        OptionError
            Where ``alpha`` is no level or ``xname`` has the wrong length.
        """
        return build_summary(self, yname=yname, xname=xname, title=title, alpha=alpha)

    def summary2(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
        float_format: str = "%.4f",
    ) -> Summary2:
        """Return the summary in statsmodels' second layout.

        Parameters
        ----------
        yname, xname, title, alpha
            As in ``summary``.
        float_format : str
            How numbers are written.

        Returns
        -------
        statsmodels.iolib.summary2.Summary
            The summary.

        Raises
        ------
        OptionError
            As ``summary``.
        """
        return build_summary2(self, yname=yname, xname=xname, title=title, alpha=alpha, float_format=float_format)

    def coefficient_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return what ``plot_coefficients`` draws.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            One row a term: "estimate", "lower", "upper" (the interval), "sampling_lower" and "sampling_upper"
            (the part of it that sampling alone accounts for).

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        return coefficient_frame(self, alpha)

    def plot_coefficients(
        self,
        ax: Axes | None = None,
        *,
        alpha: float = 0.05,
        terms: Sequence[str] | None = None,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Plot coefficients with intervals, the sampling part told apart from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence.
        terms : sequence of str, optional
            Which coefficients, in this order; by default all but the constant.
        color : str, optional
            Colour of estimates and intervals.
        legend : bool
            Whether to draw a legend.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end is drawn to the edge, with an arrow head.

        Raises
        ------
        UnknownColumnError
            Where a term does not exist.
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        return plot_coefficients(self, ax, alpha=alpha, terms=terms, color=color, legend=legend)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot coefficients with intervals; `plot_coefficients` has more options.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the intervals.
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        return plot_coefficients(self, ax, alpha=alpha, color=color)

    def margins_frame(
        self, term: str, at: object = None, *, grid: Sequence[object] | None = None, alpha: float = 0.05
    ) -> pd.DataFrame:
        """Return what ``plot_margins`` draws: predicted means along one column of the schema.

        Parameters
        ----------
        term : str
            A column that the formula reads.
        at : dict or DataFrame, optional
            Public values of all other columns that it reads; several values make several curves.
        grid : sequence, optional
            Public values of ``term``; by default its levels, or points evenly over its declared bounds.
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            A row for each curve and point: "curve" (0, 1, ...), the columns that the formula reads, and those of
            ``get_prediction(...).summary_frame(alpha)``.

        Raises
        ------
        UnknownColumnError
            Where the formula does not read ``term``, or ``at`` lacks a column.
        OptionError
            Where there is no formula, or a value is no number or declared level.
        FormulaError
            Where a term is not defined at a point.
        """
        return margins_frame(self, self._design, term, at, grid=grid, alpha=alpha)

    def plot_margins(
        self,
        term: str,
        at: object = None,
        ax: Axes | None = None,
        *,
        grid: Sequence[object] | None = None,
        alpha: float = 0.05,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Plot the predicted mean along one column, the others at public values, with a pointwise band.

        Parameters
        ----------
        term, at, grid, alpha
            As in ``margins_frame``.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        color : str, optional
            Colour of a single curve.
        legend : bool
            Whether to draw a legend where there are several curves.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end is drawn to the edge.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As ``margins_frame``.
        """
        return plot_margins(self, self._design, term, at, ax, grid=grid, alpha=alpha, color=color, legend=legend)

    @property
    def default_model_infos(self) -> dict[str, Callable[[Any], str]]:
        """What ``statsmodels.iolib.summary2.summary_col`` prints below the coefficients."""
        return {
            "N": lambda results: format_nobs(results.inference),
            "Guarantee": lambda results: short_guarantee(results.release),
            "Neighbours": lambda results: str(results.release.neighbors),
        }
