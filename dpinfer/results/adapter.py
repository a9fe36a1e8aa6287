"""statsmodels' results machinery over an inference: names and moments, and not one row.

statsmodels expects a model with data behind every result. Here the model knows names only, the covariance is
given as ``cov_params_default``, and everything that rests on a reference distribution is answered by the
inference. Arrays live in here; labels are put on outside, by the wrapper in ``regression.py``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from statsmodels.base.data import PandasData
from statsmodels.base.model import LikelihoodModelResults

from dpinfer.errors import InferenceError, OptionError
from dpinfer.results.contrasts import CoefficientTest, JointTest, check_alpha, linear_constraints
from dpinfer.results.prediction import CONSTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.base import Inference

    Array = NDArray[np.float64]

__all__ = ["DataFreeResults", "NamesOnlyData", "NamesOnlyModel", "checked_covariance"]

_NO_ROWS = "a private result holds released quantities only, and this needs the rows"
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


class NamesOnlyData(PandasData):  # type: ignore[misc]
    """The part of statsmodels' data handling that puts labels on results.

    Parameters
    ----------
    response : str
        Name of the response.
    names : sequence of str
        Names of the parameters.
    """

    endog = exog = orig_endog = orig_exog = row_labels = const_idx = None
    ynames: Any = None
    xnames: Any = None

    def __init__(self, response: str, names: Sequence[str]) -> None:
        self.ynames, self.xnames = response, list(names)
        self.k_constant = int(any(name in CONSTANTS for name in names))


class NamesOnlyModel:
    """Stands where statsmodels expects a model; knows names and whether there is a constant.

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

    exog = endog = None

    def __init__(self, response: str, names: Sequence[str]) -> None:
        self.data = NamesOnlyData(response, names)
        self.endog_names, self.exog_names = response, list(names)
        self.k_constant = self.data.k_constant
        self._data_attr: list[str] = []


def checked_covariance(inference: Inference) -> Array:
    """Return the covariance of the estimates where it can serve for inference.

    A covariance with a negative eigenvalue makes statsmodels give NaN or a negative chi-squared without a
    word, so it is refused here. An estimate that is NaN is not determined: its rows and columns must be NaN too.

    Parameters
    ----------
    inference : Inference
        Estimates with sampling and noise covariance.

    Returns
    -------
    ndarray (p, p)
        Sampling plus noise covariance, symmetric; NaN for what is not determined.

    Raises
    ------
    InferenceError
        Where shapes do not fit, numbers are not finite, names repeat, a part is not positive semidefinite in
        its diagonal, or the sum is not positive definite.
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
        raise InferenceError("what is not determined has no covariance")
    checked = _checked_total([part[block] for part in parts])
    total = np.full((size, size), np.nan)
    total[block] = checked
    return total


def _checked_total(parts: list[Array]) -> Array:
    if any((np.diag(part) < -1e-9 * np.diag(parts[0] + parts[1])).any() for part in parts):
        raise InferenceError("a variance is negative: the noisy moments were not repaired")
    total = parts[0] + parts[1]
    total = (total + total.T) / 2
    deviation = np.sqrt(np.diag(total))
    if not (deviation > 0).all() or not _positive_definite(total / np.outer(deviation, deviation)):
        raise InferenceError("the covariance of the estimates must be positive definite")
    return total


def _positive_definite(matrix: Array) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


class DataFreeResults(LikelihoodModelResults):  # type: ignore[misc]
    """statsmodels' results, without data and with one inference behind every number; arrays, no labels.

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
        self._set_adjusted_rsquared()

    def _set_adjusted_rsquared(self) -> None:
        nobs, rsquared = self.inference.nobs, self.inference.rsquared
        size = len(self.params)
        if nobs is not None and rsquared is not None and nobs > size:
            self.rsquared_adj = 1 - (nobs - self.k_constant) / (nobs - size) * (1 - rsquared)

    def __getattr__(self, name: str) -> NoReturn:
        reason = _ABSENT.get(name)
        raise AttributeError(f"{name}: {reason}" if reason else f"a private result has no {name!r}")

    @property
    def llf(self) -> NoReturn:
        """Not there: raises AttributeError."""
        raise AttributeError(_NO_LIKELIHOOD)

    @cached_property
    def pvalues(self) -> Array:
        """Two-sided p-values (p,) of single coefficients being zero."""
        size = len(self.params)
        return np.asarray(self.inference.contrast_pvalues(np.eye(size), np.zeros(size)), dtype=np.float64)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Return intervals (p, 2) of level ``1 - alpha``; ends may be infinite."""
        ends = self.inference.intervals(np.eye(len(self.params)), check_alpha(alpha))
        return np.asarray(ends, dtype=np.float64)

    def t_test(self, r_matrix: object, cov_p: None = None, use_t: bool | None = None) -> CoefficientTest:
        """Test single linear combinations; see ``PrivateResults.t_test``."""
        self._refuse(cov_p=cov_p)
        if use_t is not None and use_t != self.use_t:
            self._refuse(use_t=use_t)
        return CoefficientTest(self.inference, *linear_constraints(r_matrix, self.inference.names))

    def wald_test(
        self,
        r_matrix: object,
        cov_p: None = None,
        invcov: None = None,
        use_f: bool | None = None,
        df_constraints: None = None,
        scalar: bool = True,
    ) -> JointTest:
        """Test restrictions jointly; see ``PrivateResults.wald_test``."""
        self._refuse(cov_p=cov_p, invcov=invcov, df_constraints=df_constraints)
        restrictions, values = linear_constraints(r_matrix, self.inference.names)
        shown_as_f = self.use_t if use_f is None else bool(use_f)
        return JointTest(self.inference, restrictions, values, use_f=shown_as_f, scalar=scalar)

    def _refuse(self, **options: object) -> None:
        for option, given in options.items():
            if given is not None:
                raise OptionError(option, given, "None: the inference sets it; with_inference() changes it")

    @cached_property
    def _slopes_test(self) -> JointTest | None:
        rows = [row for row, name in enumerate(self.inference.names) if name not in CONSTANTS]
        if not rows:
            return None
        restrictions = np.eye(len(self.params))[rows]
        return JointTest(self.inference, restrictions, np.zeros(len(rows)), use_f=True)

    @property
    def fvalue(self) -> float:
        """Statistic, per degree of freedom, of all coefficients but the constant being zero."""
        if self._slopes_test is None:
            raise AttributeError(_ABSENT["fvalue"])
        return float(self._slopes_test.fvalue)

    @property
    def f_pvalue(self) -> float:
        """P-value of the test of all coefficients but the constant."""
        if self._slopes_test is None:
            raise AttributeError(_ABSENT["f_pvalue"])
        return float(self._slopes_test.pvalue)

    def remove_data(self) -> None:
        """Do nothing: there is no data."""
