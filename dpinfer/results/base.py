"""Results of a release, as a statsmodels user expects them: the base of regressions, descriptions and families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.results import plots, summary
from dpinfer.results.estimates import PrivateEstimates
from dpinfer.results.grids import PublicGrids
from dpinfer.results.margin_plots import margins_frame, plot_margins
from dpinfer.results.prediction import MeanPrediction, design_rows
from dpinfer.results.printing import Exported
from dpinfer.results.terms import pairwise_tests, term_tests
from dpinfer.results.wording import format_nobs, short_guarantee, title_guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from statsmodels.iolib.summary2 import Summary as Summary2
    from statsmodels.stats.contrast import MultiCompResult, WaldTestResults

    from dpinfer.results.printing import PrivateSummary

__all__ = ["PrivateResults"]


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
        return summary.summary_frame(self, alpha)

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
        return summary.build_summary(self, yname=yname, xname=xname, title=title, alpha=alpha)

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
        return summary.build_summary2(
            self, yname=yname, xname=xname, title=title, alpha=alpha, float_format=float_format
        )

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
        return plots.coefficient_frame(self, alpha)

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
        return plots.plot_coefficients(self, ax, alpha=alpha, terms=terms, color=color, legend=legend)

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
        return plots.plot_coefficients(self, ax, alpha=alpha, color=color)

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
