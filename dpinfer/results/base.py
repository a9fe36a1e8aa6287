"""Results of a release with statsmodels' interface: the base of regressions, descriptions and families."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.genmod.families.links import Identity
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.stats import multitest
from statsmodels.stats.contrast import MultiCompResult, WaldTestResults

from dpinfer.checks import items_of, require
from dpinfer.display.report import number
from dpinfer.errors import OptionError, UnknownColumnError, type_of
from dpinfer.results import drawing, printing
from dpinfer.results.drawing import IntervalFigure, PlottedIntervals, draw_intervals, interval_frame
from dpinfer.results.estimates import PrivateEstimates, explain, header_facts, statistic_labels
from dpinfer.results.margins import MarginalEffects, MeanFunction, Points, column_effects, contrasts_of, is_factor
from dpinfer.results.multiple_tests import METHODS
from dpinfer.results.prediction import CONSTANTS, MeanPrediction, design_rows, public_frame
from dpinfer.results.testing import check_alpha, linear_constraints
from dpinfer.results.tidy import Tidied
from dpinfer.schema.columns import Boolean, Category, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.results.margins import Curve
    from dpinfer.schema.columns import Column
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates


class Estimates(PlottedIntervals, printing.Exported, Tidied):
    """Estimates from one release, with statsmodels' names.

    Parameters
    ----------
    estimate : callable
        ``estimate(alpha)`` returns the `BatchEstimates` of one release.
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
        """The estimates by name."""
        return self._series(self._found.params[0])

    @property
    def bse(self) -> pd.Series[float]:
        """The standard errors, including privacy noise."""
        return self._series(self._found.bse[0])

    @property
    def pvalues(self) -> pd.Series[float]:
        """The p-values of the hypothesis of zero."""
        return self._series(self._found.pvalues[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings of the inference."""
        return ("the inference is flagged as unreliable",) if bool(self._found.flagged[0]) else ()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return intervals of level ``1 - alpha``, a row for each estimate, with columns 0 and 1."""
        found = self._estimate(alpha)
        return pd.DataFrame(found.intervals[0], index=list(found.names))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table behind `summary`."""
        ends, (lower, upper) = self.conf_int(alpha), printing.interval_labels(alpha)
        return pd.DataFrame(
            {"coef": self.params, "std err": self.bse, "P>|z|": self.pvalues, lower: ends[0], upper: ends[1]}
        )

    def summary(self, alpha: float = 0.05) -> printing.PrivateSummary:
        """Return the table as text, HTML, LaTeX or markdown, with the guarantee."""
        frame = self.summary_frame(alpha)
        cells = [[number(value) for value in row] for row in frame.to_numpy()]
        table = printing.cell_table(cells, list(frame.columns), printing.column_labels(self.release, self.params.index))
        title = str(self.release.question["text"])
        notes = [printing.guarantee(self.release), *printing.column_notes(self.release)]
        return printing.summary_of(title, printing.guarantee_facts(self.release), [], table, notes, self.flags)

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        frame = interval_frame(self.params, self.conf_int(alpha))
        frame.index = pd.Index(printing.column_labels(self.release, frame.index))
        title = f"{self.release.question['text']}: {printing.title_guarantee(self.release)}"
        return IntervalFigure(frame, "estimate", title)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._found.names)}>"


class PrivateResults(printing.Exported, Tidied, PrivateEstimates):
    """Estimates, intervals and tests from a release, with statsmodels' names and labels.

    Every number comes from one inference, so that intervals, p-values, tests, tables and plots agree. The object holds
    released quantities only, without frames, rows or residuals, so that a pickle cannot leak data. Examples are in
    `docs/where-to-look.md`.

    Parameters
    ----------
    inference : Inference
        Estimates with sampling and noise covariance, and the method of inference.
    release : Release or CombinedRelease
        The release behind them, with cost, neighbours and charge.
    model_name : str
        Name of the model in tables.
    response : str
        Name of the response.
    notes : sequence of str
        Sentences to print below the tables.
    inverse_link : callable, optional
        A monotone function from the linear predictor to the mean, for predictions; the identity if None.
    design : FormulaDesign, optional
        The formula's design, for predictions from columns of the schema and for tests of terms.

    Attributes
    ----------
    nobs : float
        Number of rows as released or public; AttributeError if it is neither.
    df_resid, df_model : float
        Degrees of freedom of the inference (infinite for a normal reference), and number of coefficients
        without the constant.
    scale, rsquared, rsquared_adj : float
        Error variance and coefficients of determination; AttributeError if the inference has none.
    fvalue, f_pvalue : float
        The joint test of all coefficients except the constant.
    use_t : bool
        Whether the reference distribution is a t distribution.

    Raises
    ------
    InferenceError
        If the inference is malformed or its covariance is not positive definite.

    Notes
    -----
    The variance of an estimate is sampling variance plus privacy-noise variance. ``llf``, ``aic``, ``bic``,
    ``resid`` and ``fittedvalues`` raise AttributeError: they need rows.
    """

    def __repr__(self) -> str:
        return (
            f"<PrivateResults: {self._model_name} of {self._response}, {len(self.params)} coefficients, "
            f"{self._inference.method}, {printing.title_guarantee(self._release)}>"
        )

    # Predictions

    def get_prediction(self, exog: object) -> MeanPrediction:
        """Return predicted means at public design points, with standard errors and intervals.

        Parameters
        ----------
        exog : DataFrame, dict or array (m, p)
            Columns that the formula reads, such as ``{"age": [30, 40], "sex": "b"}``; or columns of the design by
            parameter name (a constant may be omitted), which take precedence if all are present; or an array with the
            columns in the order of the parameters. Values may lie outside declared bounds. Never pass rows of the
            confidential data.

        Returns
        -------
        MeanPrediction
            ``predicted_mean``, ``conf_int(alpha)``, ``summary_frame(alpha)``.

        Raises
        ------
        UnknownColumnError
            If a column that the formula reads, or a parameter, is missing.
        OptionError
            If the columns are not numbers or declared levels, or have the wrong shape.
        FormulaError
            If a term is undefined at a point, such as ``log(age)`` at 0.
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
            Means, with the row labels of ``exog``.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As ``get_prediction``.
        """
        return self.get_prediction(exog).predicted_mean

    # What `marginaleffects` computes of a model, at points that are public. That package takes the rows of a fit: its
    # averages, its steps and its levels are theirs. Here the points are given.

    @property
    def _curve(self) -> Curve:
        """The mean as a function of the linear predictor."""
        if self._inverse_link is not None:
            raise OptionError("variables", None, "results whose mean has a known derivative: predictions() needs none")
        return MeanFunction(Identity()).curve(logarithm=False)

    def predictions(self, newdata: object, *, conf_level: float = 0.95) -> pd.DataFrame:
        """Return predicted means at public points, with standard errors, tests and intervals.

        Parameters
        ----------
        newdata : DataFrame or dict
            Public points, as ``exog`` of `get_prediction`.
        conf_level : float
            Confidence level, for each mean separately.

        Returns
        -------
        DataFrame (m, ...)
            "rowid", "estimate", "std_error", "statistic", "p_value", "s_value", "conf_low", "conf_high", then the
            points. With a link there are no "statistic", "p_value" and "s_value", since the hypothesis of a zero mean
            lies at infinity, and the interval is that of the linear predictor transformed by the inverse link.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `get_prediction`; or if ``conf_level`` is not strictly between 0 and 1.
        """
        alpha, points = 1.0 - check_alpha(conf_level, "conf_level"), _points(newdata)
        found = self.get_prediction(points)
        frame = found.summary_frame(alpha)
        columns: dict[str, Any] = {"estimate": frame["mean"], "std_error": frame.get("mean_se", np.nan)}
        if found.inverse_link is None and not found._added.any():
            ratio = frame["mean"] / frame["mean_se"]
            pvalues = self.inference.contrast_pvalues(found.rows, np.zeros(len(found.rows)))
            columns |= {"statistic": ratio, "p_value": pvalues, "s_value": _surprise(pvalues)}
        columns |= {"conf_low": frame["mean_ci_lower"], "conf_high": frame["mean_ci_upper"]}
        return _laid_out(pd.DataFrame(columns, index=points.index), points)

    def comparisons(
        self, newdata: object, variables: str | Sequence[str] | None = None, *, conf_level: float = 0.95
    ) -> pd.DataFrame:
        """Return differences of predicted means for a change in one column, at public points.

        Parameters
        ----------
        newdata : DataFrame or dict
            Public points, with all columns that the formula reads.
        variables : str or sequence of str, optional
            Columns to change; by default all that the formula reads.
        conf_level : float
            Confidence level, for each difference separately.

        Returns
        -------
        DataFrame
            A row for each change and point: "rowid", "term", "contrast", "estimate", "std_error", "statistic",
            "p_value", "s_value", "conf_low", "conf_high", and the points. Numbers change by one, from half below to
            half above the point (``"+1"``); truth values change from false to true; factors from their reference level
            to each other level.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `predictions`; or if there is no formula, or it does not read a column.
        """
        return self._effects(newdata, variables, 1.0 - check_alpha(conf_level, "conf_level"), "unit", "+1")

    def slopes(
        self, newdata: object, variables: str | Sequence[str] | None = None, *, conf_level: float = 0.95
    ) -> pd.DataFrame:
        """Return slopes of the mean at public points, and `comparisons` for factors and truth values.

        Parameters
        ----------
        newdata, variables, conf_level
            As in `comparisons`.

        Returns
        -------
        DataFrame
            As `comparisons`; the contrast of numbers is ``"dY/dX"``.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `comparisons`.
        """
        return self._effects(newdata, variables, 1.0 - check_alpha(conf_level, "conf_level"), "", "dY/dX")

    def margins_frame(
        self, term: str, at: object = None, *, grid: Sequence[object] | None = None, alpha: float = 0.05
    ) -> pd.DataFrame:
        """Return the table behind ``plot_margins``: predicted means along one column of the schema.

        Parameters
        ----------
        term : str
            A column that the formula reads.
        at : dict or DataFrame, optional
            Public values of all other columns that it reads; several values give several curves.
        grid : sequence, optional
            Public values of ``term``; by default its levels, or equally spaced points over its declared bounds.
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
            If the formula does not read ``term``, or ``at`` lacks a column.
        OptionError
            If there is no formula, or a value is not a number or declared level.
        FormulaError
            If a term is undefined at a point.
        """
        check_alpha(alpha)
        design = self._design
        if design is None:
            raise OptionError("term", term, "a column of a formula, and these results have none")
        if term not in design.variables:
            raise UnknownColumnError(term, design.variables, "the formula")
        names = [name for name in design.variables if name != term]
        others = public_frame({} if at is None else at, "at")
        if others is None:
            raise OptionError("at", type_of(at), f"a dict or a DataFrame with public values of {', '.join(names)}")
        for name in names:
            if name not in others.columns:
                raise UnknownColumnError(name, others.columns, "at")
        values = pd.Series(list(_grid(design.schema[term]) if grid is None else grid), name=term)
        if not len(values) or not len(others):
            raise OptionError("grid" if len(others) else "at", [], "at least one point")
        points = others[names].merge(values.to_frame(), how="cross")
        points.index = pd.RangeIndex(len(points))
        predicted = self.get_prediction(points).summary_frame(alpha)
        points["curve"] = np.repeat(np.arange(len(others)), len(values))
        return points[["curve", *design.variables]].join(predicted)

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
        """Plot the predicted mean along one column with a pointwise band, other columns at public values.

        Parameters
        ----------
        term, at, grid, alpha
            As in ``margins_frame``.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        color : str, optional
            Colour of a single curve.
        legend : bool
            Whether to draw a legend if there are several curves.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end extends to the edge.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As ``margins_frame``.
        """
        frame = self.margins_frame(term, at, grid=grid, alpha=alpha)
        design = self._design
        assert design is not None
        ax = drawing.given_or_new(ax, 6.4, 4.2)
        curves = [curve for _, curve in frame.groupby("curve", sort=True)]
        varying = [name for name in design.variables if name != term and len(set(map(str, frame[name]))) > 1]
        discrete = design.schema[term].kind in ("category", "boolean")
        low, high = drawing.finite_range(frame[["mean", "mean_ci_lower", "mean_ci_upper"]], 0.06)
        for place, curve in enumerate(curves):
            label = ", ".join(f"{design.schema.caption(name)} = {curve[name].iloc[0]}" for name in varying)
            shade = color if color and len(curves) == 1 else f"C{place}"
            below, above = (curve[end].clip(low, high) for end in ("mean_ci_lower", "mean_ci_upper"))
            if discrete:
                places = np.arange(len(curve)) + 0.12 * (place - (len(curves) - 1) / 2)
                drawing.draw_whiskers(ax, places, {"lower": below, "upper": above}, color=shade, upright=True)
                ax.plot(places, curve["mean"], "o", color=shade, markersize=5, label=label)
                ax.set_xticks(np.arange(len(curve)), [str(value) for value in curve[term]])
            else:
                ax.fill_between(
                    curve[term].to_numpy(dtype=np.float64), below, above, color=shade, alpha=0.25, linewidth=0
                )
                ax.plot(curve[term].to_numpy(dtype=np.float64), curve["mean"], color=shade, label=label)
        ax.set_ylim(low, high)
        ax.set_xlabel(design.schema.caption(term))
        ax.set_ylabel(f"mean of {design.schema.caption(self.response)},\npointwise {100 * (1 - alpha):.4g}% intervals")
        drawing.titled(ax, f"{design.schema.caption(self.response)}: {printing.title_guarantee(self.release)}")
        drawing.restrain(ax)
        drawing.grouped(ax.yaxis, *([] if discrete else [ax.xaxis]))
        if legend and varying:
            ax.legend(frameon=False, fontsize=drawing.SMALL)
        return ax

    def _effects(self, newdata: object, variables: object, alpha: float, change: str, label: str) -> pd.DataFrame:
        design = self._design
        if design is None:
            raise OptionError("variables", variables, "results of a formula: these have none to tell what changes")
        points = _points(newdata)
        values = design.read(points)
        at, params, curve = Points(design.rows(values, len(points)), values), self.inference.params, self._curve
        found = []
        for name in _named(variables, design):
            effects = column_effects(at.rows, values, design, name, dummy=True, change=change)
            factor, truth = is_factor(design, name), isinstance(design.schema[name], Boolean)
            contrasts = contrasts_of(design, name) if factor else ["True - False" if truth else label]
            for contrast, effect in zip(contrasts, effects, strict=True):
                changes = MarginalEffects(self, (), *effect.evaluate(at, params, curve, relative=False))
                found.append(_laid_out(_tested(changes, name, contrast, alpha, points.index), points))
        return pd.concat(found, ignore_index=True)

    # Terms of the formula

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Sequence[tuple[str, object]] | None = None,
        combine_terms: Sequence[str] | None = None,
        scalar: bool = True,
    ) -> WaldTestResults:
        """Test, for each term of the formula, that all its coefficients are zero.

        Parameters
        ----------
        skip_single : bool
            Whether to omit terms with a single coefficient.
        extra_constraints : list of (str, constraints), optional
            Further tests: a name, and restrictions as in ``t_test``.
        combine_terms : list of str, optional
            Each text adds a joint test of all terms whose names contain it.
        scalar : bool
            Return statistics as floats, or as arrays (1, 1).

        Returns
        -------
        statsmodels.stats.contrast.WaldTestResults
            ``table`` with a row for each term and columns "statistic", "pvalue", "df_constraint" (and "df_denom" for
            F); ``summary_frame()``. P-values are those of the inference. Without a formula there is a row for each
            coefficient.

        Raises
        ------
        OptionError
            If restrictions cannot be read, or no term contains a text.
        """
        names = self._inference.names
        places = {name: (place,) for place, name in enumerate(names)} if self._design is None else self._design.terms
        tested: list[tuple[str, Any]] = [
            (term, list(columns)) for term, columns in places.items() if len(columns) > 1 or not skip_single
        ]
        for part in items_of(combine_terms):
            joined = [place for term, columns in places.items() if part in term for place in columns]
            if not joined:
                raise OptionError("combine_terms", part, f"a part of the name of a term: {', '.join(places)}")
            tested.append((part, joined))
        tested = [(label, (np.eye(len(names))[columns], np.zeros(len(columns)))) for label, columns in tested]
        tested += [(label, linear_constraints(given, names)) for label, given in extra_constraints or []]
        found = [self.wald_test(restrictions, scalar=scalar) for _, restrictions in tested]
        use_f = bool(self.use_t)
        columns = {
            "statistic": [one.statistic for one in found],
            "pvalue": [float(one.pvalue) for one in found],
            "df_constraint": [int(one.df_num if use_f else one.df_denom) for one in found],
        } | ({"df_denom": [float(one.df_denom) for one in found]} if use_f else {})
        table = pd.DataFrame(columns, index=[label for label, _ in tested])
        return WaldTestResults(None, "F" if use_f else "chi2", None, table=table)

    def t_test_pairwise(
        self,
        term_name: str,
        method: str | Sequence[str] = "hs",
        alpha: float = 0.05,
        factor_labels: Sequence[str] | None = None,
    ) -> MultiCompResult:
        """Compare all pairs of levels of a categorical term, with p-values corrected for multiplicity.

        Parameters
        ----------
        term_name : str
            A term that is a single factor, such as ``"C(race)"``, with any contrasts.
        method : str or list of str
            Correction methods of ``statsmodels.stats.multitest.multipletests``.
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
            If the term is not a single factor, or an argument is invalid.
        """
        check_alpha(alpha)
        methods = items_of(method)
        for one in methods:
            if multitest.multitest_alias.get(one, "lfdr") == "lfdr":  # listed by statsmodels, and not served
                raise OptionError("method", one, METHODS)
        coding, places, levels = _factor(self._design, term_name)
        if factor_labels is not None:
            if len(factor_labels) != len(levels):
                raise OptionError("factor_labels", factor_labels, f"{len(levels)} labels")
            levels = tuple(map(str, factor_labels))
        first, second = np.triu_indices(len(levels), 1)
        contrasts = np.zeros((len(first), len(self._inference.names)))
        contrasts[:, list(places)] = coding[second] - coding[first]
        labels = [f"{levels[j]}-{levels[i]}" for i, j in zip(first, second, strict=True)]
        test = self.t_test(contrasts)
        frame = test.summary_frame(xname=labels)
        for one in methods:
            with np.errstate(divide="ignore"):  # of a p-value of 1
                rejected, adjusted, *_ = multitest.multipletests(np.atleast_1d(test.pvalue), method=one, alpha=alpha)
            frame[f"pvalue-{one}"], frame[f"reject-{one}"] = adjusted, rejected
        return MultiCompResult(
            result_frame=frame,
            contrasts=contrasts,
            term=term_name,
            contrast_labels=labels,
            term_encoding_matrix=coding,
        )

    # Tables and plots

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table behind text, HTML, LaTeX, markdown and plots.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            One row per term; columns "coef", "std err", "std err (sampling)", "std err (noise)", "t" and "P>|t|" ("z"
            and "P>|z|" for a normal reference; "P (score)" and so on if the p-value is not Wald's), "[0.025", "0.975]"
            (for alpha = .05) and "noise share" (0 to 1). Regressions by iterations add "bias bound", an upper bound on
            the clipping bias of the coefficient, which the interval includes.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        return self._frame(alpha, tested=True)

    def _frame(self, alpha: float, *, tested: bool) -> pd.DataFrame:
        """Return estimates with errors and intervals, and statistics and p-values if they are tested."""
        ends = self.conf_int(check_alpha(alpha))
        bound = getattr(self.inference, "bias_bound", None)
        parts = {"std err": self.bse, "std err (sampling)": self.bse_sampling, "std err (noise)": self.bse_noise}
        tests = dict(zip(statistic_labels(self), (self.tvalues, self.pvalues), strict=True)) if tested else {}
        interval = dict(zip(printing.interval_labels(alpha), (ends[0], ends[1]), strict=True))
        columns = {"coef": self.params, **parts, **tests, **interval, "noise share": self.noise_share}
        return pd.DataFrame(columns | ({} if bound is None else {"bias bound": bound}))

    _with_tests = True
    _table_of = staticmethod(printing.coefficient_table)

    @property
    def _title(self) -> str:
        return f"{self.model_name} Results"

    def _names(self, xname: Sequence[str] | None, default: Sequence[str]) -> list[str]:
        """Return the names of the estimates."""
        names = list(default if xname is None else xname)
        if len(names) != len(default):
            raise OptionError("xname", names, f"{len(default)} names")
        return names

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> printing.PrivateSummary:
        """Return the summary: header, coefficients, guarantee and warnings.

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
            A statsmodels ``Summary`` with as_text(), as_html(), as_latex(), as_markdown() and as_csv(). It shows no
            date, so that a release always prints the same.

        Raises
        ------
        OptionError
            If ``alpha`` is not a level or ``xname`` has the wrong length.
        """
        frame = self.summary_frame(alpha)
        table = self._table_of(frame, self._names(xname, printing.column_labels(self.release, self._inference.names)))
        left, right = header_facts(self, yname or self.response)
        notes = explain(self, frame, alpha, tested=self._with_tests)
        return printing.summary_of(title or self._title, left, right, table, notes, self.flags)

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
            Format of the numbers.

        Returns
        -------
        statsmodels.iolib.summary2.Summary
            The summary.

        Raises
        ------
        OptionError
            As ``summary``.
        """
        frame = self._frame(alpha, tested=True)
        frame.index = pd.Index(self._names(xname, self._inference.names))
        left, right = header_facts(self, yname or self.response)
        table = Summary2()
        table.add_dict(dict(left) | dict(right))
        table.add_df(printing.without_parts(frame), float_format=float_format)
        table.settings[0]["float_format"] = float_format  # statsmodels takes the first table's for all
        table.add_title(title or f"Results: {self.model_name}")
        for note in [*explain(self, frame, alpha), *(f"Warning: {warning}" for warning in self.flags)]:
            table.add_text(note)
        return table

    def coefficient_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table behind ``plot_coefficients``.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            One row per term: "estimate", "lower", "upper" (the interval), "sampling_lower" and "sampling_upper" (the
            part of it due to sampling alone).

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.

        Notes
        -----
        Each arm of an interval is shortened by the square root of the sampling share of the variance. For a Wald
        interval this gives exactly the interval without privacy noise; for other methods it is only illustrative. The
        sampling part of an infinite arm is the normal quantile times the sampling standard error.
        """
        ends = self.conf_int(check_alpha(alpha))
        error, sampling = self.bse.to_numpy(), self.bse_sampling.to_numpy()
        return interval_frame(self.params, ends.to_numpy(), sampling / error, stats.norm.isf(alpha / 2) * sampling)

    def plot_coefficients(
        self,
        ax: Axes | None = None,
        *,
        alpha: float = 0.05,
        terms: Sequence[str] | None = None,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Plot coefficients with intervals, distinguishing the sampling part from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence.
        terms : sequence of str, optional
            Coefficients to plot, in this order; by default all except the constant.
        color : str, optional
            Colour of estimates and intervals.
        legend : bool
            Whether to draw a legend.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end extends to the edge, with an arrow head.

        Raises
        ------
        UnknownColumnError
            If a term does not exist.
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        frame = self.coefficient_frame(alpha)
        for name in terms or ():
            if name not in frame.index:
                raise UnknownColumnError(name, frame.index, "the coefficients")
        slopes = [name for name in frame.index if name not in CONSTANTS]
        frame = frame.loc[(slopes or list(frame.index)) if terms is None else list(terms)]
        frame.index = pd.Index(printing.column_labels(self.release, frame.index))
        title, label = self._plot_title(), f"coefficient ({self.inference.method} inference)"
        return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=True, label=label, title=title)

    def _plot_title(self) -> str:
        (response,) = printing.column_labels(self.release, [self.response])
        return f"{response}: {printing.title_guarantee(self.release)}"

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
        return self.plot_coefficients(ax, alpha=alpha, color=color)

    @property
    def default_model_infos(self) -> dict[str, Callable[[Any], str]]:
        """The facts that ``statsmodels.iolib.summary2.summary_col`` prints below the coefficients."""
        return {
            "N": lambda results: printing.format_nobs(results.inference),
            "Guarantee": lambda results: printing.short_guarantee(results.release),
            "Neighbours": lambda results: str(results.release.neighbors),
        }


def _factor(design: FormulaDesign | None, term_name: str) -> tuple[Array, tuple[int, ...], tuple[str, ...]]:
    """Return the coding (levels, columns) of a single-factor term, its columns, and its levels."""
    factors: dict[str, tuple[Any, ...]] = {}
    for term, places in ({} if design is None else design.terms).items():
        assert design is not None
        columns = [design.columns[place] for place in places]
        involved = {name for column in columns for name, _ in column.codings}
        if len(involved) == 1 and all(column.codings and column.expression.constant == 1.0 for column in columns):
            coding = np.array([column.codings[0][1] for column in columns], dtype=np.float64).T
            factors[term] = (coding, places, design.schema[involved.pop()].level_texts)
    if term_name not in factors:
        known = ", ".join(factors) or "there is none here"
        raise OptionError("term_name", term_name, f"a term that is one factor, without interactions: {known}")
    coding, places, levels = factors[term_name]
    return coding, places, levels


_POINTS = 101


def _grid(column: Column) -> Sequence[Any]:
    """Return the levels of a column, or equally spaced points over its declared bounds."""
    if isinstance(column, Category):
        return column.levels
    if column.kind == "boolean":
        return (False, True)
    lower, upper = float(getattr(column, "lower", 0.0)), float(getattr(column, "upper", 1.0))
    if isinstance(column, Integer) and upper - lower < _POINTS:
        return [float(k) for k in range(int(lower), int(upper) + 1)]
    return [float(value) for value in np.linspace(lower, upper, _POINTS)]


def _tested(changes: MarginalEffects, name: str, contrast: str, alpha: float, index: pd.Index) -> pd.DataFrame:
    """Return the columns for changes (m,) of one kind, one per point."""
    ends = changes.conf_int(alpha)
    columns = {
        "term": name,
        "contrast": contrast,
        "estimate": changes.margeff,
        "std_error": changes.margeff_se,
        "statistic": changes.tvalues,
        "p_value": changes.pvalues,
        "s_value": _surprise(changes.pvalues),
        "conf_low": ends[:, 0],
        "conf_high": ends[:, 1],
    }
    return pd.DataFrame(columns, index=index)


def _surprise(pvalues: Array) -> Array:
    """Return p-values in bits, -log2 p; infinite where a p-value is zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log2(pvalues))


def _laid_out(numbers: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Put the index of the point before the numbers, and the points after them."""
    taken = [name for name in points.columns if name in numbers.columns or name == "rowid"]
    if taken:
        raise OptionError("newdata", ", ".join(map(str, taken)), "columns that are not called as the results are")
    numbers.insert(0, "rowid", np.arange(len(points)))
    return numbers.join(points).reset_index(drop=True)


def _points(newdata: object) -> pd.DataFrame:
    to_pandas = getattr(newdata, "to_pandas", None)  # of Polars and Arrow
    frame = public_frame(newdata if to_pandas is None else to_pandas(), "newdata")
    if frame is None or frame.empty:
        raise OptionError("newdata", type_of(newdata), "public points: a DataFrame, or a dict of columns")
    return frame.reset_index(drop=True)


def _named(variables: object, design: FormulaDesign) -> Sequence[str]:
    """Return the columns to change."""
    if variables is None:
        return design.variables
    names = items_of(variables)
    require(names, "variables", type_of(variables), "columns that the formula reads, by name")
    for name in names:
        if name not in design.variables:
            raise UnknownColumnError(name, design.variables, "the formula")
    return list(names)
