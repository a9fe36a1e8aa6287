"""Estimates, intervals and tests of one inference, with labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import pandas as pd
from statsmodels.base.wrapper import ResultsWrapper

from dpinfer.errors import OptionError
from dpinfer.inference.simultaneous import joint_level
from dpinfer.results.adapter import DataFreeResults
from dpinfer.results.contrasts import check_alpha, checked_truth
from dpinfer.results.testing.regression import simulated_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.base import Inference
    from dpinfer.inference.nulls import Draws
    from dpinfer.release.release import AnyRelease
    from dpinfer.results.contrasts import CoefficientTest, JointTest
    from dpinfer.results.testing.regression import RegressionTestResults
    from dpinfer.schema.formula import FormulaDesign

    Array = NDArray[np.float64]

__all__ = ["METHODS", "PrivateEstimates"]

METHODS = (
    *("auto", "wald", "score", "simulated", "exact"),
    *("fiducial", "unbiased", "conservative", "most_conservative"),
)
"""The methods of inference; the last four are those of a bootstrap."""

NULLS = ("asymptotic", "simulated")
"""Where the p-value of a joint test may come from."""


class PrivateEstimates(ResultsWrapper):  # type: ignore[misc]
    """The numbers of a result; ``PrivateResults`` documents them, and adds predictions, tables and plots.

    Parameters
    ----------
    inference, release, model_name, response, notes, inverse_link, design
        As in ``PrivateResults``.

    Raises
    ------
    InferenceError
        Where the inference is malformed or its covariance is not positive definite.
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
        """The one inference behind every number."""
        return self._inference

    @property
    def release(self) -> AnyRelease:
        """The release that the inference was made from."""
        return self._release

    @property
    def flags(self) -> tuple[str, ...]:
        """Sentences that warn the reader; empty when all is well."""
        return tuple(self._inference.flags)

    @property
    def model_name(self) -> str:
        """What tables call the model."""
        return self._model_name

    @property
    def response(self) -> str:
        """Name of the response."""
        return self._response

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences printed below the tables, besides those on the guarantee."""
        return self._notes

    def with_inference(self, method: str) -> Self:
        """Return the same estimates under another method of inference, at no privacy cost.

        Parameters
        ----------
        method : str
            "auto", "wald", "score", "simulated" or "exact"; of a bootstrap "fiducial", "unbiased", "conservative" or
            "most_conservative". Not every model has all of them.

        Returns
        -------
        PrivateResults
            New results of the same class; this object does not change.

        Raises
        ------
        OptionError
            Where there is no such method.
        """
        if method not in METHODS:
            raise OptionError("method", method, METHODS)
        return self._inferred(method)

    def _inferred(self, method: str) -> Self:
        return type(self)(self._inference.with_method(method), self._release, **self._labels())

    def _labels(self) -> dict[str, Any]:
        """Everything but the inference and the release that the results are made of."""
        return {
            "model_name": self._model_name,
            "response": self._response,
            "notes": self._notes,
            "inverse_link": self._inverse_link,
            "design": self._design,
        }

    # Estimates

    def _series(self, values: Array) -> pd.Series:
        return pd.Series(np.array(values, dtype=np.float64), index=list(self._inference.names))

    def _matrix(self, values: Array) -> pd.DataFrame:
        names = list(self._inference.names)
        return pd.DataFrame(np.array(values, dtype=np.float64), index=names, columns=names)

    @property
    def params(self) -> pd.Series:
        """Series (p,): estimates by term."""
        return self._series(self._results.params)

    @property
    def bse(self) -> pd.Series:
        """Series (p,): standard errors, with sampling and privacy noise counted."""
        return self._series(self._results.bse)

    @property
    def bse_sampling(self) -> pd.Series:
        """Series (p,): standard errors from sampling alone; zero where the target is the data."""
        return self._series(np.sqrt(np.maximum(np.diag(self._inference.cov_sampling), 0.0)))

    @property
    def bse_noise(self) -> pd.Series:
        """Series (p,): standard errors from privacy noise alone."""
        return self._series(np.sqrt(np.maximum(np.diag(self._inference.cov_noise), 0.0)))

    @property
    def noise_share(self) -> pd.Series:
        """Series (p,): the share, from 0 to 1, of each variance that is privacy noise."""
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
            Combinations.
        column : int or array of int, optional
            Positions of parameters; not together with the others.
        other : ndarray (m, p), optional
            A second set of combinations.

        Returns
        -------
        DataFrame (p, p), or ndarray where an argument is given
            Sampling plus noise covariance.

        Raises
        ------
        ValueError
            Where arguments are combined as above they cannot be.
        """
        values: Array = self._results.cov_params(r_matrix=r_matrix, column=column, other=other)
        if r_matrix is None and column is None:
            return self._matrix(values)
        return np.asarray(values, dtype=np.float64)

    # Intervals and tests

    @property
    def tvalues(self) -> pd.Series:
        """Series (p,): estimates over standard errors."""
        return self._series(self._results.tvalues)

    @property
    def pvalues(self) -> pd.Series:
        """Series (p,): two-sided p-values of single coefficients being zero."""
        return self._series(self._results.pvalues)

    def conf_int(
        self, alpha: float = 0.05, cols: Iterable[int] | None = None, *, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Return confidence intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence: for each coefficient by itself, or for all that are wanted together.
        cols : iterable of int, optional
            Positions of the coefficients wanted; all by default.
        simultaneous : bool
            Whether all intervals hold together with the stated confidence: by the largest of their standardised errors,
            simulated with the covariance of sampling and noise.

        Returns
        -------
        DataFrame (p, 2)
            Lower ends (column 0) and upper ends (column 1) by term; an end may be infinite.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1, or ``cols`` are no such positions.
        """
        count = len(self._inference.names)
        places = list(range(count)) if cols is None else list(cols)
        if not all(isinstance(one, int | np.integer) and -count <= one < count for one in places):
            raise OptionError("cols", cols, f"positions of coefficients, from 0 to {count - 1}")
        level = check_alpha(alpha)
        if checked_truth("simultaneous", simultaneous):
            total = self._inference.cov_sampling + self._inference.cov_noise
            level = joint_level(total[np.ix_(places, places)], level)
        ends = pd.DataFrame(self._results.conf_int(level), index=list(self._inference.names))
        return ends if cols is None else ends.iloc[places]

    def t_test(self, r_matrix: object, cov_p: None = None, use_t: bool | None = None) -> CoefficientTest:
        """Test linear combinations of coefficients, one at a time.

        Parameters
        ----------
        r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
            Hypotheses in any form of statsmodels: ``"age = educ, x = 1"``.
        cov_p : None
            In statsmodels another covariance; here the inference sets it.
        use_t : bool, optional
            In statsmodels another reference; here the inference sets it.

        Returns
        -------
        CoefficientTest
            A ``ContrastResults``: effect, sd, tvalue, pvalue, conf_int(), summary(), summary_frame().

        Raises
        ------
        OptionError
            Where the hypotheses cannot be read, or an option contradicts the inference.
        """
        return self._results.t_test(r_matrix, cov_p=cov_p, use_t=use_t)

    @overload
    def wald_test(
        self,
        r_matrix: object,
        cov_p: None = ...,
        invcov: None = ...,
        use_f: bool | None = ...,
        df_constraints: None = ...,
        scalar: bool = ...,
        *,
        null: Literal["asymptotic"] = ...,
        draws: Draws = ...,
        seed: int = ...,
    ) -> JointTest: ...

    @overload
    def wald_test(
        self,
        r_matrix: object,
        cov_p: None = ...,
        invcov: None = ...,
        use_f: bool | None = ...,
        df_constraints: None = ...,
        scalar: bool = ...,
        *,
        null: Literal["simulated"],
        draws: Draws = ...,
        seed: int = ...,
    ) -> RegressionTestResults: ...

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
    ) -> JointTest | RegressionTestResults:
        """Test linear restrictions jointly.

        Parameters
        ----------
        r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
            Restrictions, as in ``t_test``.
        cov_p, invcov, df_constraints : None
            In statsmodels another covariance or degrees of freedom; here the inference sets them.
        use_f : bool, optional
            Show the statistic per degree of freedom; by default where the reference is a t distribution.
            It changes how the statistic is written, never the p-value.
        scalar : bool
            Give the statistic as a float, or as an array (1, 1); for ``null="asymptotic"``.
        null : {"asymptotic", "simulated"}
            Where the p-value comes from: the inference, or releases of a linear regression simulated under the
            restrictions, by the score statistic whatever the inference.
        draws : "adaptive" or int
            Simulated releases; "adaptive" takes more where the p-value is small.
        seed : int
            Of the simulation: public, draws no privacy noise.

        Returns
        -------
        JointTest
            A ``ContrastResults``: statistic, pvalue, df_num, df_denom. For ``null="simulated"`` instead a
            ``RegressionTestResults``: statistic, pvalue, df_num, frame(), summary(), plot_null().

        Raises
        ------
        OptionError
            Where the restrictions cannot be read, or an option contradicts the inference.
        InferenceError
            Where the restrictions are linearly dependent.
        NotProvedError
            For ``null="simulated"`` where the results are not those of a linear regression on cross-products.
        """
        if null not in NULLS:
            raise OptionError("null", null, NULLS)
        if null == "asymptotic":
            return self._results.wald_test(
                r_matrix, cov_p=cov_p, invcov=invcov, use_f=use_f, df_constraints=df_constraints, scalar=scalar
            )
        self._results._refuse(cov_p=cov_p, invcov=invcov, df_constraints=df_constraints)
        if not scalar:
            raise OptionError("scalar", scalar, 'True with null="simulated"')
        shown_as_f = self._results.use_t if use_f is None else bool(use_f)
        return simulated_test(
            self.inference,
            self.release,
            r_matrix,
            use_f=shown_as_f,
            model_name=self.model_name,
            draws=draws,
            seed=seed,
            flags=self.flags,
            notes=self.notes,
        )

    @overload
    def f_test(
        self,
        r_matrix: object,
        cov_p: None = ...,
        invcov: None = ...,
        *,
        null: Literal["asymptotic"] = ...,
        draws: Draws = ...,
        seed: int = ...,
    ) -> JointTest: ...

    @overload
    def f_test(
        self,
        r_matrix: object,
        cov_p: None = ...,
        invcov: None = ...,
        *,
        null: Literal["simulated"],
        draws: Draws = ...,
        seed: int = ...,
    ) -> RegressionTestResults: ...

    def f_test(
        self,
        r_matrix: object,
        cov_p: None = None,
        invcov: None = None,
        *,
        null: Literal["asymptotic", "simulated"] = "asymptotic",
        draws: Draws = "adaptive",
        seed: int = 0,
    ) -> JointTest | RegressionTestResults:
        """Test linear restrictions jointly, the statistic written as F; see ``wald_test``.

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
        if null == "asymptotic":
            return self.wald_test(r_matrix, cov_p=cov_p, invcov=invcov, use_f=True)
        return self.wald_test(r_matrix, cov_p=cov_p, invcov=invcov, use_f=True, null=null, draws=draws, seed=seed)
