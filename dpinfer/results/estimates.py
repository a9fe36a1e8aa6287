"""Estimates, intervals and tests of one inference: statsmodels' results without data, with labels.

statsmodels expects a model with data behind every result. Here the model holds only names, the covariance is given as
``cov_params_default``, and the inference provides everything that depends on a reference distribution.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
import pandas as pd
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.base.wrapper import ResultsWrapper

from dpinfer.checks import is_whole, require
from dpinfer.errors import InferenceError, OptionError
from dpinfer.results import printing
from dpinfer.results.prediction import CONSTANTS
from dpinfer.results.testing import (
    CoefficientTest,
    JointTest,
    check_alpha,
    linear_constraints,
    simulated_test,
    single_level,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Inference
    from dpinfer.statistics.nulls import Draws


_NO_ROWS = "a private result holds released quantities only; this needs the rows"
_NO_LIKELIHOOD = "a private result has no likelihood: it is computed from noisy sums, not from the rows"
_ROBUST = "standard errors are chosen before rows are read: cov_type= of the question, robust by default; see bse"
_NO_SQUARES = "sums of squares are not released: where the inference gives them, see scale and rsquared"
_NOT_RELEASED = "the number of rows is neither released nor public here"
_ABSENT = {
    "llf": _NO_LIKELIHOOD,
    "llnull": _NO_LIKELIHOOD,
    "aic": _NO_LIKELIHOOD,
    "bic": _NO_LIKELIHOOD,
    "nobs": _NOT_RELEASED,
    "rsquared": "this inference gives no coefficient of determination",
    "rsquared_adj": "it needs R-squared and a number of rows above the number of parameters",
    "scale": "this inference gives no error variance",
    **dict.fromkeys(("resid", "fittedvalues", "wresid", "outlier_test", "get_influence", "resid_pearson"), _NO_ROWS),
    **dict.fromkeys(("resid_response", "resid_deviance", "resid_generalized", "pred_table"), _NO_ROWS),
    **dict.fromkeys(("loglike", "loglikelihood", "deviance", "null_deviance", "pearson_chi2"), _NO_LIKELIHOOD),
    **dict.fromkeys(("llr", "llr_pvalue", "prsquared", "aicc", "hqic", "info_criteria"), _NO_LIKELIHOOD),
    "compare_lr_test": f"{_NO_LIKELIHOOD}: wald_test, or f_test(..., null='simulated')",
    "compare_f_test": "it compares sums of squares of two fits: f_test of the terms that one of them lacks",
    **dict.fromkeys(("get_robustcov_results", "HC0_se", "HC1_se", "HC2_se", "HC3_se"), _ROBUST),
    **dict.fromkeys(("cov_HC0", "cov_HC1", "cov_HC2", "cov_HC3"), _ROBUST),
    **dict.fromkeys(
        ("ssr", "ess", "centered_tss", "uncentered_tss", "mse_resid", "mse_model", "mse_total"), _NO_SQUARES
    ),
    **dict.fromkeys(
        ("condition_number", "eigenvals", "cov_kwds"), "the products of regressors are noisy, and kept inside"
    ),
    "fvalue": "there is no coefficient besides the constant",
    "f_pvalue": "there is no coefficient besides the constant",
}


class NamesOnlyModel:
    """A substitute for a statsmodels model that holds names and whether there is a constant.

    Parameters
    ----------
    response : str
        Name of the response.
    names : sequence of str
        Names of the parameters.

    Attributes
    ----------
    endog_names : str
        Name of the response.
    exog_names : list of str
        Names of the parameters.
    k_constant : int
        1 with a constant, 0 without.
    """

    data = exog = endog = None

    def __init__(self, response: str, names: Sequence[str]) -> None:
        self.endog_names, self.exog_names = response, list(names)
        self.k_constant = int(any(name in CONSTANTS for name in names))
        self._data_attr: list[str] = []


def checked_covariance(inference: Inference) -> Array:
    """Return the covariance of the estimates if it is valid for inference.

    With a negative eigenvalue statsmodels would silently return NaN or a negative chi-squared, so it is refused here.
    An estimate that is NaN is not identified: its rows and columns must also be NaN.

    Parameters
    ----------
    inference : Inference
        Estimates with sampling and noise covariance.

    Returns
    -------
    ndarray (p, p)
        Sampling plus noise covariance, symmetric; NaN for estimates that are not identified.

    Raises
    ------
    InferenceError
        If shapes do not match, numbers are not finite, names repeat, a part has a negative diagonal element, or the sum
        is not positive definite.
    """
    size = len(inference.names)
    if len(set(inference.names)) != size or size == 0:
        raise InferenceError("an inference needs at least one parameter, and no name twice")
    parts = [np.asarray(part, dtype=np.float64) for part in (inference.cov_sampling, inference.cov_noise)]
    if np.shape(inference.params) != (size,) or any(part.shape != (size, size) for part in parts):
        raise InferenceError(f"an inference on {size} parameters needs arrays ({size},) and ({size}, {size})")
    known = ~np.isnan(inference.params)
    block = np.ix_(known, known)
    if not all(np.isfinite(values).all() for values in (inference.params[known], *(part[block] for part in parts))):
        raise InferenceError("estimates and covariances must be finite")
    if not all(np.isnan(part[~known]).all() and np.isnan(part[:, ~known]).all() for part in parts):
        raise InferenceError("an estimate that is not determined has no covariance")
    parts = [part[block] for part in parts]
    if any((np.diag(part) < -1e-9 * np.diag(parts[0] + parts[1])).any() for part in parts):
        raise InferenceError("a variance is negative: the noisy moments were not repaired")
    checked = parts[0] + parts[1]
    checked = (checked + checked.T) / 2
    deviation = np.sqrt(np.diag(checked))
    proper = bool((deviation > 0).all())
    if proper:
        try:
            np.linalg.cholesky(checked / np.outer(deviation, deviation))
        except np.linalg.LinAlgError:
            proper = False
    if not proper:
        raise InferenceError("the covariance of the estimates must be positive definite")
    total = np.full((size, size), np.nan)
    total[block] = checked
    return total


class DataFreeResults(LikelihoodModelResults):  # type: ignore[misc]
    """statsmodels' results without data, from one inference, as unlabelled arrays.

    Parameters
    ----------
    inference : Inference
        Estimates and the method of inference.
    response : str
        Name of the response.

    Raises
    ------
    InferenceError
        As ``checked_covariance`` says.
    """

    def __init__(self, inference: Inference, response: str) -> None:
        covariance = checked_covariance(inference)
        params = np.array(inference.params, dtype=np.float64)
        super().__init__(NamesOnlyModel(response, inference.names), params)
        del self.scale  # set by statsmodels to 1 whether or not the model has one
        self.inference = inference
        self.cov_params_default = covariance
        self.cov_type = getattr(inference, "cov_type", "privacy-aware")
        self.use_t = bool(np.isfinite(inference.df_resid))
        self.df_resid = float(inference.df_resid)
        self.df_model = float(len(params) - self.model.k_constant)
        for name in ("nobs", "scale", "rsquared"):
            value = getattr(inference, name)
            if value is not None:
                setattr(self, name, float(value))
        nobs, rsquared, size = inference.nobs, inference.rsquared, len(params)
        if nobs is not None and rsquared is not None and nobs > size:
            self.rsquared_adj = 1 - (nobs - self.k_constant) / (nobs - size) * (1 - rsquared)

    def __getattr__(self, name: str) -> NoReturn:
        reason = _ABSENT.get(name)
        raise AttributeError(f"{name}: {reason}" if reason else f"a private result has no {name!r}")

    @property
    def llf(self) -> NoReturn:
        """Not available: raises AttributeError."""
        raise AttributeError(_NO_LIKELIHOOD)

    @cached_property
    def pvalues(self) -> Array:
        """Two-sided p-values (p,) that single coefficients are zero."""
        size = len(self.params)
        return np.asarray(self.inference.contrast_pvalues(np.eye(size), np.zeros(size)), dtype=np.float64)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Return intervals (p, 2) of level ``1 - alpha``; ends may be infinite."""
        ends = self.inference.intervals(np.eye(len(self.params)), check_alpha(alpha))
        return np.asarray(ends, dtype=np.float64)

    @cached_property
    def _slopes_test(self) -> JointTest:
        rows = [row for row, name in enumerate(self.inference.names) if name not in CONSTANTS]
        if not rows:
            raise AttributeError(_ABSENT["fvalue"])
        restrictions = np.eye(len(self.params))[rows]
        return JointTest(self.inference, restrictions, np.zeros(len(rows)), use_f=True)

    @property
    def fvalue(self) -> float:
        """Statistic per degree of freedom that all coefficients except the constant are zero."""
        return float(self._slopes_test.fvalue)

    @property
    def f_pvalue(self) -> float:
        """P-value of the test of all coefficients except the constant."""
        return float(self._slopes_test.pvalue)

    def remove_data(self) -> None:
        """Do nothing: there is no data."""


def _refuse(**options: object) -> None:
    """Refuse an option that the inference sets."""
    for option, given in options.items():
        if given is not None:
            raise OptionError(option, given, "None: the inference sets it; with_inference() changes it")


METHODS = (
    *("auto", "wald", "score", "simulated", "exact", "anderson-rubin"),
    *("fiducial", "unbiased", "conservative", "most_conservative"),
)
"""The methods of inference; "anderson-rubin" is that of instrumental variables, the last four those of a bootstrap."""

NULLS = ("asymptotic", "simulated")
"""Where the p-value of a joint test may come from."""


class PrivateEstimates(ResultsWrapper):  # type: ignore[misc]
    """The numbers of a result, to which ``PrivateResults`` adds documentation, predictions, tables and plots.

    Parameters
    ----------
    inference, release, model_name, response, notes, inverse_link, design
        As in ``PrivateResults``.

    Raises
    ------
    InferenceError
        If the inference is malformed or its covariance is not positive definite.
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        model_name: str = "Private OLS",
        response: str = "y",
        notes: Sequence[str] = (),
        inverse_link: Callable[[Array], Array] | None = None,
        design: FormulaDesign | None = None,
    ) -> None:
        self._results = DataFreeResults(inference, response)
        self._inference, self._release = inference, release
        self._model_name, self._response, self._notes = model_name, response, tuple(notes)
        self._inverse_link, self._design = inverse_link, design

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._results)})

    # What the results are made of

    @property
    def inference(self) -> Inference:
        """The inference behind every number."""
        return self._inference

    @property
    def release(self) -> AnyRelease:
        """The release behind the inference."""
        return self._release

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, as sentences; empty if there are none."""
        return tuple(self._inference.flags)

    @property
    def model_name(self) -> str:
        """Name of the model in tables."""
        return self._model_name

    @property
    def response(self) -> str:
        """Name of the response."""
        return self._response

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes printed below the tables, in addition to those on the guarantee."""
        return self._notes

    def with_inference(self, method: str) -> Self:
        """Return the same estimates with another method of inference, at no privacy cost.

        Parameters
        ----------
        method : str
            "auto", "wald", "score", "simulated" or "exact"; for instrumental variables "anderson-rubin"; for a
            bootstrap "fiducial", "unbiased", "conservative" or "most_conservative". Not every model has all of them.

        Returns
        -------
        PrivateResults
            New results of the same class; this object is unchanged.

        Raises
        ------
        OptionError
            If there is no such method.
        """
        if method not in METHODS:
            raise OptionError("method", method, METHODS)
        return self._inferred(method)

    def _inferred(self, method: str) -> Self:
        found = copy.copy(self)
        found._inference = self._inference.with_method(method)
        found._results = DataFreeResults(found._inference, self._response)
        return found

    # Estimates

    @cached_property
    def _index(self) -> pd.Index:
        """The names of the terms; tables get a view, which a user may rename."""
        return pd.Index(list(self._inference.names))

    def _series(self, values: Array) -> pd.Series:
        return pd.Series(np.array(values, dtype=np.float64), index=self._index.view())

    def _matrix(self, values: Array) -> pd.DataFrame:
        names = self._index
        return pd.DataFrame(np.array(values, dtype=np.float64), index=names.view(), columns=names.view())

    @property
    def params(self) -> pd.Series:
        """Series (p,): estimates by term."""
        return self._series(self._results.params)

    @property
    def bse(self) -> pd.Series:
        """Series (p,): standard errors, including sampling and privacy noise."""
        return self._series(self._results.bse)

    @property
    def bse_sampling(self) -> pd.Series:
        """Series (p,): standard errors from sampling alone; zero if the target is the data."""
        return self._series(np.sqrt(np.maximum(np.diag(self._inference.cov_sampling), 0.0)))

    @property
    def bse_noise(self) -> pd.Series:
        """Series (p,): standard errors from privacy noise alone."""
        return self._series(np.sqrt(np.maximum(np.diag(self._inference.cov_noise), 0.0)))

    @property
    def noise_share(self) -> pd.Series:
        """Series (p,): share of each variance due to privacy noise, from 0 to 1."""
        return self.bse_noise**2 / self.bse**2

    @property
    def cov_sampling(self) -> pd.DataFrame:
        """DataFrame (p, p): covariance from sampling."""
        return self._matrix(self._inference.cov_sampling)

    @property
    def cov_noise(self) -> pd.DataFrame:
        """DataFrame (p, p): covariance from privacy noise."""
        return self._matrix(self._inference.cov_noise)

    def cov_params(
        self, r_matrix: Array | None = None, column: Any = None, other: Array | None = None
    ) -> pd.DataFrame | Array:
        """Return the covariance of the estimates, or of linear combinations of them.

        Parameters
        ----------
        r_matrix : ndarray (k, p) or (p,), optional
            Linear combinations.
        column : int or array of int, optional
            Positions of parameters; not allowed with the other arguments.
        other : ndarray (m, p), optional
            A second set of combinations.

        Returns
        -------
        DataFrame (p, p), or ndarray if an argument is given
            Sampling plus noise covariance.

        Raises
        ------
        ValueError
            If arguments are combined that exclude each other.
        """
        values: Array = self._results.cov_params(r_matrix=r_matrix, column=column, other=other)
        if r_matrix is None and column is None:
            return self._matrix(values)
        return np.asarray(values, dtype=np.float64)

    # Intervals and tests

    @property
    def tvalues(self) -> pd.Series:
        """Series (p,): estimates divided by standard errors."""
        return self._series(self._results.tvalues)

    @property
    def pvalues(self) -> pd.Series:
        """Series (p,): two-sided p-values that single coefficients are zero."""
        return self._series(self._results.pvalues)

    def conf_int(
        self, alpha: float = 0.05, cols: Iterable[int] | None = None, *, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Return confidence intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence level: for each coefficient separately, or for all requested ones jointly.
        cols : iterable of int, optional
            Positions of the requested coefficients; all by default.
        simultaneous : bool
            Whether the intervals have joint confidence, based on the largest of their standardised errors, simulated
            with the covariance of sampling and noise.

        Returns
        -------
        DataFrame (p, 2)
            Lower ends (column 0) and upper ends (column 1) by term; an end may be infinite.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1, or ``cols`` are not such positions.
        """
        count = len(self._inference.names)
        places = list(range(count)) if cols is None else list(cols)
        within = all(is_whole(one) and -count <= one < count for one in places)
        require(within, "cols", cols, f"positions of coefficients, from 0 to {count - 1}")
        level = single_level(self._inference, np.eye(count)[places], alpha, simultaneous)
        ends = pd.DataFrame(self._results.conf_int(level), index=self._index.view())
        return ends if cols is None else ends.iloc[places]

    def t_test(self, r_matrix: object, cov_p: None = None, use_t: bool | None = None) -> CoefficientTest:
        """Test linear combinations of coefficients, one at a time.

        Parameters
        ----------
        r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
            Hypotheses in any form of statsmodels: ``"age = educ, x = 1"``.
        cov_p : None
            Another covariance in statsmodels; here the inference sets it.
        use_t : bool, optional
            Another reference distribution in statsmodels; here the inference sets it.

        Returns
        -------
        CoefficientTest
            A ``ContrastResults``: effect, sd, tvalue, pvalue, conf_int(), summary(), summary_frame().

        Raises
        ------
        OptionError
            If the hypotheses cannot be read, or an option contradicts the inference.
        """
        _refuse(cov_p=cov_p, use_t=None if use_t == self.use_t else use_t)
        return CoefficientTest(self._inference, *linear_constraints(r_matrix, self._inference.names))

    def wald_test(
        self,
        r_matrix: object,
        cov_p: None = None,
        invcov: None = None,
        use_f: bool | None = None,
        df_constraints: None = None,
        scalar: bool = True,
        *,
        null: Literal["asymptotic", "simulated"] = "asymptotic",
        draws: Draws = "adaptive",
        seed: int = 0,
    ) -> Any:
        """Test linear restrictions jointly.

        Parameters
        ----------
        r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
            Restrictions, as in ``t_test``.
        cov_p, invcov, df_constraints : None
            Another covariance or other degrees of freedom in statsmodels; here the inference sets them.
        use_f : bool, optional
            Whether to show the statistic per degree of freedom; by default if the reference is a t distribution. This
            changes the form of the statistic, never the p-value.
        scalar : bool
            Return the statistic as a float, or as an array (1, 1); for ``null="asymptotic"``.
        null : {"asymptotic", "simulated"}
            Source of the p-value: the inference, or releases of a linear regression simulated under the restrictions,
            with the score statistic for every inference.
        draws : "adaptive" or int
            Number of simulated releases; "adaptive" takes more if the p-value is small.
        seed : int
            Seed of the simulation: public, draws no privacy noise.

        Returns
        -------
        JointTest
            A ``ContrastResults``: statistic, pvalue, df_num, df_denom. For ``null="simulated"`` instead a
            ``RegressionTestResults``: statistic, pvalue, df_num, frame(), summary(), plot_null().

        Raises
        ------
        OptionError
            If the restrictions cannot be read, or an option contradicts the inference.
        InferenceError
            If the restrictions are linearly dependent.
        NotProvedError
            For ``null="simulated"`` if the results are not those of a linear regression on cross-products.
        """
        if null not in NULLS:
            raise OptionError("null", null, NULLS)
        _refuse(cov_p=cov_p, invcov=invcov, df_constraints=df_constraints)
        shown_as_f = self.use_t if use_f is None else bool(use_f)
        if null == "asymptotic":
            constraints = linear_constraints(r_matrix, self._inference.names)
            return JointTest(self._inference, *constraints, use_f=shown_as_f, scalar=scalar)
        if not scalar:
            raise OptionError("scalar", scalar, 'True with null="simulated"')
        return simulated_test(self, r_matrix, use_f=shown_as_f, draws=draws, seed=seed)

    def f_test(
        self,
        r_matrix: object,
        cov_p: None = None,
        invcov: None = None,
        *,
        null: Literal["asymptotic", "simulated"] = "asymptotic",
        draws: Draws = "adaptive",
        seed: int = 0,
    ) -> Any:
        """Test linear restrictions jointly with the statistic in F form; see ``wald_test``.

        Parameters
        ----------
        r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
            Restrictions, as in ``t_test``.
        cov_p, invcov : None
            As in ``wald_test``.
        null, draws, seed : str, "adaptive" or int, int
            As in ``wald_test``.

        Returns
        -------
        JointTest
            A ``ContrastResults``: fvalue, pvalue, df_num, df_denom. For ``null="simulated"`` instead a
            ``RegressionTestResults``.

        Raises
        ------
        OptionError, InferenceError, NotProvedError
            As ``wald_test``.
        """
        return self.wald_test(r_matrix, cov_p=cov_p, invcov=invcov, use_f=True, null=null, draws=draws, seed=seed)


_TARGETS = {
    "population": "Intervals and tests are for the population: they account for sampling error and privacy noise.",
    "data": "Intervals and tests are for these rows, not a wider population: they account for privacy noise only.",
}
_METHODS = {
    "wald": "",
    "score": (
        "P-values and intervals invert the score test, which remains valid when privacy noise is large. "
        "They are not computed from the {letter} column (coef / std err)."
    ),
    "anderson-rubin": (
        "P-values and intervals invert the Anderson-Rubin test, which remains valid when instruments are weak or "
        "privacy noise is large. They are not computed from the {letter} column (coef / std err)."
    ),
    "simulated": (
        "P-values and intervals come from simulating the whole procedure, including noise and clamping. "
        "They are not computed from the {letter} column (coef / std err)."
    ),
    "fiducial": (
        "P-values and intervals allow for error in the estimated variance between replicates. "
        "They are not computed from the {letter} column (coef / std err)."
    ),
    "exact": (
        "P-values and intervals come from the exact distribution. "
        "They are not computed from the {letter} column (coef / std err)."
    ),
}


def statistic_labels(results: PrivateEstimates) -> tuple[str, str]:
    """Return the column names of statistic and p-value: statsmodels' names if they apply."""
    letter = "t" if results.use_t else "z"
    method = results.inference.method
    return letter, f"P>|{letter}|" if method == "wald" else f"P ({method})"


def header_facts(results: PrivateEstimates, response: str) -> tuple[printing.Facts, printing.Facts]:
    """Return the label-value pairs of the left and the right half of the header."""
    inference = results.inference
    reference = ("Df Residuals:", f"{inference.df_resid:.6g}") if results.use_t else ("Reference:", "normal")
    rsquared = "" if inference.rsquared is None else f"{inference.rsquared:.3f}"
    scale = "" if inference.scale is None else f"{inference.scale:.5g}"
    unit = printing.measured_in(results.release, response)
    covariance = getattr(inference, "cov_type", "") if inference.target == "population" else ""
    left = [
        ("Model:", results.model_name),
        ("Dep. Variable:", response),
        *([("Unit:", unit)] if unit else []),
        *printing.guarantee_facts(results.release),
        ("Inference:", inference.method),
    ]
    right = [
        ("No. Observations:", printing.format_nobs(inference)),
        reference,
        ("Df Model:", f"{results.df_model:.0f}"),
        *([("R-squared:", rsquared)] if rsquared else []),
        *([("Scale:", scale)] if scale else []),
        *([("Covariance Type:", covariance)] if covariance else []),
    ]
    return left, right


def method_notes(results: PrivateEstimates, ends: NDArray[np.float64]) -> list[str]:
    """Describe the source of p-values and intervals (k, 2), and the meaning of an infinite end."""
    method = _METHODS.get(results.inference.method, "").format(letter="t" if results.use_t else "z")
    infinite = (
        ""
        if np.isfinite(ends).all()
        else "An infinite limit means that the release does not bound the interval on that side."
    )
    return [note for note in (method, infinite) if note]


def explain(results: PrivateEstimates, frame: pd.DataFrame, alpha: float, *, tested: bool = True) -> list[str]:
    """Return the notes below a table.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    frame : DataFrame
        Their ``summary_frame``.
    alpha : float
        One minus the confidence of its intervals.
    tested : bool
        Whether the table has test statistics, whose method the notes then name.

    Returns
    -------
    list of str
        At most three: guarantee and charge; how to read the table (target, noise share, method, infinite limits); and
        notes on the columns and assumptions.
    """
    inference, release = results.inference, results.release
    ends = frame[list(printing.interval_labels(alpha))].to_numpy(dtype=np.float64)
    reading = [
        _TARGETS.get(inference.target, f"Target: {inference.target}."),
        f"Noise share is the fraction of {'a coefficient' if tested else 'an estimate'}'s variance due to privacy "
        "noise.",
        *(note for note in method_notes(results, ends) if tested or "coef / std err" not in note),
    ]
    notes = [printing.guarantee_note(release), " ".join(reading)]
    own = " ".join([*printing.column_notes(release), *results.notes])
    return [*notes, own] if own else notes
