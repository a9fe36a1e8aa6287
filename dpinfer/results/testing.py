"""Test results: linear hypotheses about coefficients, and single tests of a release."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from patsy import DesignInfo
from scipy import stats
from statsmodels.stats.contrast import ContrastResults

from dpinfer.checks import are_texts, of_type
from dpinfer.display.report import Report, Table, number
from dpinfer.errors import InferenceError, NotProvedError, OptionError
from dpinfer.results import printing
from dpinfer.results.drawing import (
    MARKED,
    IntervalFigure,
    PlottedIntervals,
    draw_law,
    dress_law,
    given_or_new,
    interval_frame,
)
from dpinfer.statistics.inference import combined, joint_level
from dpinfer.statistics.nulls import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from statsmodels.iolib.table import SimpleTable

    from dpinfer.release.release import AnyRelease
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Inference
    from dpinfer.statistics.nulls import Draws, NullDistribution


def check_alpha(alpha: float, option: str = "alpha") -> float:
    """Return ``alpha`` if it is a level.

    Parameters
    ----------
    alpha : float
        One minus the confidence.
    option : str
        Name of the user's argument.

    Returns
    -------
    float
        The same number.

    Raises
    ------
    OptionError
        If ``alpha`` is not strictly between 0 and 1.
    """
    if not (isinstance(alpha, int | float | np.number) and 0 < alpha < 1):
        raise OptionError(option, alpha, "a number strictly between 0 and 1")
    return float(alpha)


def checked_truth(option: str, given: bool) -> bool:
    """Return a truth value, or refuse anything else.

    Raises
    ------
    OptionError
    """
    of_type((bool, np.bool_), option, given, "True or False")
    return bool(given)


def single_level(inference: Inference, rows: Array, alpha: float, simultaneous: bool) -> float:
    """Return the level of single intervals of combinations (k, p), separately or jointly.

    Raises
    ------
    OptionError
        If ``alpha`` is not a level, or ``simultaneous`` is not a truth value.
    """
    level = check_alpha(alpha)
    if not checked_truth("simultaneous", simultaneous):
        return level
    total = inference.cov_sampling + inference.cov_noise
    lost = (rows[:, np.isnan(np.diag(total))] != 0).any(axis=1)
    joint = rows @ np.nan_to_num(total) @ rows.T
    joint[lost] = joint[:, lost] = np.nan
    return joint_level(joint, level)


def linear_constraints(constraints: object, names: Sequence[str]) -> tuple[Array, Array]:
    """Read linear constraints in any of the forms that statsmodels takes.

    Parameters
    ----------
    constraints : str, list of str, dict, array (k, p), array (p,), or tuple of two of these arrays
        ``"age = educ, x = 1"``, ``{"age": 0}``, a matrix R (then R b = 0) or a pair (R, q) (then R b = q;
        q may be a scalar).
    names : sequence of str, length p
        The parameter names, in order.

    Returns
    -------
    restrictions : ndarray (k, p)
        R.
    values : ndarray (k,)
        q.

    Raises
    ------
    OptionError
        If the constraints cannot be read as linear constraints among the names.

    Examples
    --------
    >>> matrix, values = linear_constraints("age = educ, x = 1", ["age", "educ", "x"])
    >>> matrix.tolist(), values.tolist()
    ([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0])
    """
    expected = f"linear constraints among {', '.join(names)} as text, dict, matrix (k, {len(names)}) or (R, q)"
    spec = constraints
    if isinstance(constraints, tuple) and len(constraints) == 2 and np.ndim(constraints[1]) == 0:
        spec = (constraints[0], np.full(len(np.atleast_2d(constraints[0])), constraints[1]))
    plain = [f"p{place}_" for place in range(len(names))]
    refused = False
    try:
        parsed = DesignInfo(plain).linear_constraint(_with_plain_names(spec, names, plain))
        restrictions = np.atleast_2d(np.asarray(parsed.coefs, dtype=np.float64))
        values = np.ravel(np.asarray(parsed.constants, dtype=np.float64))
    except Exception:  # the formula engines raise errors of their own, without a common root, that quote what was given
        refused = True
    if refused:
        raise OptionError("r_matrix", constraints, expected)
    count = restrictions.shape[0]
    if restrictions.shape[1] != len(names) or values.size != count or count == 0:
        raise OptionError("r_matrix", constraints, expected)
    if not (np.isfinite(restrictions).all() and np.isfinite(values).all()):
        raise OptionError("r_matrix", constraints, "finite numbers")
    return restrictions, values


def _with_plain_names(spec: Any, names: Sequence[str], plain: Sequence[str]) -> Any:
    """Replace parameter names by identifiers, since ``age[group=a]`` looks like an equation."""
    if isinstance(spec, dict):
        known = dict(zip(names, plain, strict=True))
        return {known.get(name, name): value for name, value in spec.items()}
    if isinstance(spec, list | tuple) and are_texts(spec):
        return [_with_plain_names(one, names, plain) for one in spec]
    if not isinstance(spec, str):
        return spec
    known = dict(zip(names, plain, strict=True))
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest)
    return re.sub(pattern, lambda found: known[found.group()], spec)


def standard_errors(inference: Inference, combinations: Array) -> Array:
    """Return standard errors (k,), including noise, of linear combinations (k, p) of the parameters."""
    covariance = inference.cov_sampling + inference.cov_noise
    known = np.where(np.isnan(covariance), 0.0, covariance)
    found: Array = np.sqrt(np.einsum("ij,jk,ik->i", combinations, known, combinations))
    return found + 0.0 * combined(combinations, inference.params)


class CoefficientTest(PlottedIntervals, printing.Shown, ContrastResults):  # type: ignore[misc]
    """Tests of single linear combinations, in the form of statsmodels' ``ContrastResults``.

    P-values and intervals are those of the inference. ``tvalue`` is always (effect - value) / ``sd``, but it determines
    the p-value only with Wald inference.

    Parameters
    ----------
    inference : Inference
        The inference behind the results.
    restrictions : ndarray (k, p)
        The combinations.
    values : ndarray (k,)
        Their values under the hypothesis.

    Attributes
    ----------
    effect : ndarray (k,)
        The estimated combinations.
    sd, tvalue, statistic : ndarray (k,), or (1, 1) for one combination as in statsmodels
        Standard errors including sampling and noise, and standardised distances from the hypothesis.
    pvalue : ndarray (k,), or 0-dimensional for one combination
        Two-sided p-values.
    df_denom : float
        Degrees of freedom of the reference distribution, infinite for a normal one.
    distribution : str
        "t" or "norm".
    """

    def __init__(self, inference: Inference, restrictions: Array, values: Array) -> None:
        effect = combined(restrictions, inference.params)
        deviation = standard_errors(inference, restrictions)
        if (deviation <= 0).any():
            raise OptionError("r_matrix", restrictions.tolist(), "no row of zeros")
        shape = (1, 1) if len(effect) == 1 else (-1,)
        statistic = ((effect - values) / deviation).reshape(shape)
        reference: dict[str, Any] = {"statistic": statistic, "distribution": "norm"}
        if np.isfinite(inference.df_resid):
            reference = {"t": statistic}
        super().__init__(effect=effect, sd=deviation.reshape(shape), df_denom=inference.df_resid, **reference)
        self.pvalue = np.squeeze(inference.contrast_pvalues(restrictions, values))
        self.method = inference.method
        self._inference, self._restrictions = inference, restrictions

    def conf_int(self, alpha: float = 0.05, *, simultaneous: bool = False) -> Array:
        """Return intervals for the combinations.

        Parameters
        ----------
        alpha : float
            One minus the confidence level, for each combination separately or for all jointly.
        simultaneous : bool
            As in ``PrivateResults.conf_int``.

        Returns
        -------
        ndarray (k, 2)
            Lower and upper ends in the units of ``effect``; an end may be infinite.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        level = single_level(self._inference, self._restrictions, alpha, simultaneous)
        return self._inference.intervals(self._restrictions, level)

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        frame = interval_frame(pd.Series(np.ravel(self.effect)), self.conf_int(alpha))
        frame.index = pd.Index([f"c{place}" for place in range(len(frame))])
        label, title = f"combination ({self.method} inference)", "Tests of linear combinations"
        return IntervalFigure(frame, label, title, zero=True)

    def _report(self) -> Report:
        return Report("Tests of linear combinations", (), (Table.of(self.summary_frame()),))

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> object:
        """Return a table of the tests.

        Parameters
        ----------
        xname : sequence of str, optional
            Names of the combinations; by default c0, c1, ...
        alpha : float
            One minus the confidence of the intervals.
        title : str, optional
            A title; by default it names the inference if that is not Wald's.

        Returns
        -------
        statsmodels.iolib.table.SimpleTable
            The table.
        """
        if title is None and self.method != "wald":
            title = f"Test for Constraints (p-values and intervals: {self.method})"
        return super().summary(xname=xname, alpha=alpha, title=title)


class JointTest(printing.Shown, ContrastResults):  # type: ignore[misc]
    """A joint test of several linear restrictions, in the form of statsmodels' ``ContrastResults``.

    Parameters
    ----------
    inference : Inference
        The inference behind the results, which always gives the p-value.
    restrictions : ndarray (k, p)
        The combinations.
    values : ndarray (k,)
        Their values under the hypothesis.
    use_f : bool
        Whether to show the statistic per degree of freedom, as F, or as chi-squared.
    scalar : bool
        Whether the statistic is a float, or an array (1, 1).

    Attributes
    ----------
    statistic, fvalue : float or ndarray (1, 1)
        The statistic (``fvalue`` with ``use_f`` only).
    pvalue : ndarray ()
        The p-value.
    df_num, df_denom : float
        With ``use_f`` the degrees of freedom of numerator and denominator; otherwise ``df_denom`` is the number of
        restrictions, as in statsmodels.
    """

    def __init__(
        self, inference: Inference, restrictions: Array, values: Array, *, use_f: bool, scalar: bool = True
    ) -> None:
        chi2, df, pvalue = inference.wald(restrictions, values)
        if len(restrictions) == 1:  # one hypothesis, one law: that of t_test
            pvalue = float(inference.contrast_pvalues(restrictions, values)[0])
        statistic = float(chi2) / df if use_f else float(chi2)
        shown = statistic if scalar else np.full((1, 1), statistic)
        if use_f:
            super().__init__(F=shown, df_denom=inference.df_resid, df_num=df)
        else:
            super().__init__(statistic=shown, df_denom=df, distribution="chi2", dist_args=(df,))
        self.pvalue = np.asarray(pvalue, dtype=np.float64)
        self.method = inference.method

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the statistic with its reference distribution, if the p-value comes from it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6.5, 3.8)
        observed, degrees = float(np.ravel(self.statistic)[0]), float(np.ravel(self.df_denom)[0])
        if self.distribution == "chi2":
            name, law = "chi-squared", stats.chi2(degrees)
        else:
            finite = np.isfinite(degrees)
            name, law = "F", stats.f(self.df_num, degrees) if finite else stats.chi2(self.df_num, scale=1 / self.df_num)
        draw_law(ax, observed, law if self.method == "wald" else None, f"{float(np.ravel(self.pvalue)[0]):.4g}")
        dress_law(ax, f"{name} statistic", f"Joint test ({self.method} inference)")
        return ax

    def _report(self) -> Report:
        facts = (("statistic", number(float(np.ravel(self.statistic)[0]))),
                 ("p-value", f"{float(np.ravel(self.pvalue)[0]):.4g}"), ("inference", self.method))  # fmt: skip
        return Report("Joint test of linear restrictions", facts)


@dataclass(frozen=True)
class Effect:
    """An effect size in the population, with its interval.

    Attributes
    ----------
    name : str
    estimate : float
        Corrected for the bias of sampling and noise; at least 0.
    lower, upper : float
    flag : str
        A warning if noise hides the denominator of the measure; otherwise empty.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    flag: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class TestResults(printing.Exported, ABC):
    """A hypothesis test on a release: the statistic, its p-value, and how they were computed.

    Unpacks like scipy's results: ``statistic, pvalue = results``.

    Attributes
    ----------
    title : str
        Name of the test.
    hypothesis : str
        The null hypothesis, in words.
    statistic : float
    pvalue : float
        The p-value, which accounts for privacy noise.
    release : Release or CombinedRelease
        The release tested, with cost, neighbours and charge.
    statistic_name : str
        Name of the statistic in tables.
    dof : float or None
        Degrees of freedom of the statistic, if it has them.
    alternative : {"two-sided", "greater", "less", ""}
        Empty if the test has no sides.
    distribution : NullDistribution or None
        The simulated null distribution; None if the p-value is exact or asymptotic.
    null : {"simulated", "asymptotic", "exact"}
        Source of the p-value.
    nobs : float or None
        Number of rows as released or public.
    nobs_is_public : bool
    flags : tuple of str
        Warnings, as sentences; empty if there are none.
    notes : tuple of str
        Notes printed below the tables, in addition to those on null and guarantee.
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
        """Monte Carlo standard error of the p-value; 0 if it was not simulated."""
        return 0.0 if self.distribution is None else self.distribution.error

    @property
    def df(self) -> float | None:
        """Another name for ``dof``, as in statsmodels."""
        return self.dof

    def __iter__(self) -> Iterator[float]:
        yield self.statistic
        yield self.pvalue

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.title} ({self.hypothesis}), statistic {self.statistic:.4g}, "
            f"p-value {self._pvalue_text()}, {printing.title_guarantee(self.release)}>"
        )

    @abstractmethod
    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a table of what the statistic was computed from: cells, groups or coefficients."""

    def summary(self, alpha: float = 0.05) -> printing.PrivateSummary:
        """Return the test as a table: hypothesis, statistic, p-value, guarantee, and `frame` below.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        PrivateSummary
            With as_text(), as_html(), as_latex() and as_markdown().
        """
        left = [
            ("Null hypothesis:", self.hypothesis),
            *([("Alternative:", self.alternative)] if self.alternative else []),
            *printing.guarantee_facts(self.release),
            ("No. Observations:", printing.format_count(self.nobs, public=self.nobs_is_public)),
        ]
        right = [
            (f"{self.statistic_name}:", f"{self.statistic:.6g}"),
            *([] if self.dof is None else [("Df:", f"{self.dof:.6g}")]),
            ("P-value:", self._pvalue_text()),
            ("Null:", self.null),
            *([] if self.distribution is None else [("Simulated draws:", f"{self.distribution.draws:,}")]),
        ]
        table = _table(self.frame(alpha))
        return printing.summary_of(self.title, left, right, table, self._explain(alpha), self.flags)

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Plot the simulated null distribution and the observed statistic.

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
            If nothing was simulated.
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
        """Plot the null distribution, simulated or asymptotic, and the observed statistic; see `plot_null`.

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
            "the null hypothesis with both sampling error and privacy noise",
            "asymptotic": "The p-value uses the limiting distribution, privacy noise included.",
            "exact": "The p-value is exact: the distributions of the count and of the privacy noise are known.",
        }[self.null]
        if self.distribution is not None and self.null == "simulated":
            how += f" (public seed {self.distribution.seed}; +- is its Monte Carlo standard error)."
        return [
            printing.guarantee_note(self.release),
            how,
            *self.notes,
            *printing.column_notes(self.release),
        ]


def _table(frame: pd.DataFrame) -> SimpleTable:
    cells = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    return printing.cell_table(cells, [str(name) for name in frame.columns], printing.label_texts(frame.index))


def _cell(value: object) -> str:
    return printing.figure(float(value)) if isinstance(value, float | int | np.number) else str(value)


_RAISED = (
    "The noisy error variance is below the standard error of its own privacy noise and is raised to it, in the "
    "statistic and in every draw."
)
_NOTES = {
    "population": "Score statistic; simulated errors are normal, conditional on the regressors.",
    "data": "Score statistic; the hypothesis is about the coefficients in these rows: only privacy noise is random.",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionTestResults(TestResults):
    """A joint test of linear restrictions on coefficients, with a simulated p-value.

    ``statistic`` is the score statistic of the restrictions (chi-squared), or that per restriction (F), as
    ``statistic_name`` states; both have the same p-value.

    Attributes
    ----------
    inference : Inference
        The inference of the regression, whose method gives the intervals in `frame`.
    restrictions : ndarray (k, p)
    targets : ndarray (k,)
        Values of ``restrictions @ params`` under the hypothesis.
    """

    inference: Inference = field(repr=False)
    restrictions: Array = field(repr=False)
    targets: Array = field(repr=False)

    @property
    def df_num(self) -> float:
        """Number of restrictions, under statsmodels' name."""
        return float(len(self.targets))

    @property
    def fvalue(self) -> float:
        """The statistic per restriction."""
        return self.statistic if self.statistic_name == "F" else self.statistic / self.df_num

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a table of the restricted combinations.

        Parameters
        ----------
        alpha : float
            One minus the confidence level, for each combination separately.

        Returns
        -------
        DataFrame (k, 5)
            By restriction: "estimate", "under H0", "std err" (sampling and privacy noise) and the ends of the interval,
            named as in a summary; an end may be infinite.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        ends = self.inference.intervals(self.restrictions, check_alpha(alpha))
        lower, upper = printing.interval_labels(alpha)
        return pd.DataFrame(
            {
                "estimate": self.restrictions @ self.inference.params,
                "under H0": self.targets,
                "std err": standard_errors(self.inference, self.restrictions),
                lower: ends[:, 0],
                upper: ends[:, 1],
            },
            index=restriction_texts(self.restrictions, self.targets, self.inference.names),
        )


def restriction_texts(restrictions: Array, targets: Array, names: Sequence[str]) -> list[str]:
    """Write linear restrictions as equations, one per row.

    Parameters
    ----------
    restrictions : ndarray (k, p)
    targets : ndarray (k,)
    names : sequence of str, length p

    Examples
    --------
    >>> restriction_texts(np.array([[1.0, 0.0], [2.0, -1.0]]), np.array([0.0, 0.5]), ["age", "educ"])
    ['age = 0', '2 * age - educ = 0.5']
    """
    texts = []
    for row, target in zip(restrictions, targets, strict=True):
        text = ""
        for place in np.flatnonzero(row):
            weight, name = float(row[place]), names[int(place)]
            joint = (" - " if weight < 0 else " + ") if text else ("-" if weight < 0 else "")
            text += joint + (name if abs(weight) == 1 else f"{abs(weight):.6g} * {name}")
        texts.append(f"{text} = {target + 0.0:.6g}")
    return texts


def simulated_test(
    results: Any, r_matrix: object, *, use_f: bool, draws: Draws = "adaptive", seed: int = 0
) -> RegressionTestResults:
    """Test linear restrictions on a regression jointly, with releases simulated under them.

    Parameters
    ----------
    results : PrivateEstimates
        Results of a linear regression on cross-products.
    r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
        Restrictions, as statsmodels reads them.
    use_f : bool
        Whether to show the statistic per restriction.
    draws : "adaptive" or int
    seed : int
        Public; draws no privacy noise.

    Returns
    -------
    RegressionTestResults

    Raises
    ------
    NotProvedError
        If the inference is not that of a linear regression on cross-products.
    OptionError
        If the restrictions cannot be read, or ``draws`` or ``seed`` is invalid.
    InferenceError
        If the restrictions are linearly dependent.
    """
    inference = results.inference
    restricted = getattr(inference, "restricted", None)
    if restricted is None:
        raise NotProvedError(
            f'null="simulated" is proved for a linear regression on cross-products (dpinfer.ols, or its formula on a '
            f'release of dpinfer.gram), and {results.model_name} is none; null="asymptotic" serves it'
        )
    restrictions, targets = linear_constraints(r_matrix, inference.names)
    null = restricted(restrictions, targets)
    found = simulate(null.model, null.values, draws=draws, seed=seed)
    if use_f:
        found = replace(found, statistic=found.statistic / len(targets), sample=found.sample / len(targets))
    lost = () if np.isfinite(found.statistic) else ("the statistic cannot be computed from this release",)
    return RegressionTestResults(
        title="F test of linear restrictions" if use_f else "Wald test of linear restrictions",
        hypothesis=", ".join(restriction_texts(restrictions, targets, inference.names)),
        statistic=found.statistic,
        pvalue=found.pvalue,
        release=results.release,
        statistic_name="F" if use_f else "Chi-squared",
        dof=float(len(targets)),
        distribution=found,
        nobs=inference.nobs,
        nobs_is_public=inference.nobs_is_public,
        flags=(*results.flags, *lost),
        notes=(_NOTES[inference.target], *([_RAISED] if null.raised else []), *results.notes),
        inference=inference,
        restrictions=restrictions,
        targets=targets,
    )
