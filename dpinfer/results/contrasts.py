"""Linear hypotheses about coefficients: read as statsmodels reads them, answered by one inference."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.formula._manager import FormulaManager
from statsmodels.stats.contrast import ContrastResults

from dpinfer.display.report import Report, Table, number
from dpinfer.errors import OptionError
from dpinfer.inference.contrasts import combined
from dpinfer.inference.simultaneous import joint_level
from dpinfer.results.drawing import IntervalFigure, PlottedIntervals
from dpinfer.results.laws import draw_law, dress_law
from dpinfer.results.style import given_or_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.inference.base import Inference

    Array = NDArray[np.float64]

__all__ = ["CoefficientTest", "JointTest", "check_alpha", "checked_truth", "linear_constraints", "standard_errors"]


def check_alpha(alpha: float, option: str = "alpha") -> float:
    """Return ``alpha`` where it is a level.

    Parameters
    ----------
    alpha : float
        One minus the confidence.
    option : str
        What the user calls it.

    Returns
    -------
    float
        The same number.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.
    """
    if not (isinstance(alpha, int | float | np.number) and 0 < alpha < 1):
        raise OptionError(option, alpha, "a number strictly between 0 and 1")
    return float(alpha)


def checked_truth(option: str, given: bool) -> bool:
    """Return a truth value where it is one.

    Raises
    ------
    OptionError
    """
    if not isinstance(given, bool | np.bool_):
        raise OptionError(option, given, "True or False")
    return bool(given)


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
        Where the constraints cannot be read as linear constraints among the names.

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
        parsed = FormulaManager().get_linear_constraints(_with_plain_names(spec, names, plain), plain)
        restrictions = np.atleast_2d(np.asarray(parsed.constraint_matrix, dtype=np.float64))
        values = np.ravel(np.asarray(parsed.constraint_values, dtype=np.float64))
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
    """Write identifiers for parameter names: a name such as ``age[group=a]`` cannot be told from an equation."""
    if isinstance(spec, dict):
        known = dict(zip(names, plain, strict=True))
        return {known.get(name, name): value for name, value in spec.items()}
    if isinstance(spec, list | tuple) and all(isinstance(one, str) for one in spec):
        return [_with_plain_names(one, names, plain) for one in spec]
    if not isinstance(spec, str):
        return spec
    known = dict(zip(names, plain, strict=True))
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest)
    return re.sub(pattern, lambda found: known[found.group()], spec)


def standard_errors(inference: Inference, combinations: Array) -> Array:
    """Return the standard errors (k,), sampling and noise, of linear combinations (k, p) of the parameters."""
    covariance = inference.cov_sampling + inference.cov_noise
    known = np.where(np.isnan(covariance), 0.0, covariance)
    found: Array = np.sqrt(np.einsum("ij,jk,ik->i", combinations, known, combinations))
    return found + 0.0 * combined(combinations, inference.params)


class CoefficientTest(PlottedIntervals, ContrastResults):  # type: ignore[misc]
    """Tests of single linear combinations, in the form of statsmodels' ``ContrastResults``.

    P-values and intervals are those of the inference; ``tvalue`` is (effect - value) / ``sd`` under every
    inference, and only under a Wald inference does it determine the p-value.

    Parameters
    ----------
    inference : Inference
        The one inference behind the results.
    restrictions : ndarray (k, p)
        The combinations.
    values : ndarray (k,)
        Their values under the hypothesis.

    Attributes
    ----------
    effect : ndarray (k,)
        The estimated combinations.
    sd, tvalue, statistic : ndarray (k,), or (1, 1) for one combination as in statsmodels
        Standard errors with sampling and noise, and standardised distances from the hypothesis.
    pvalue : ndarray (k,), or 0-dimensional for one combination
        Two-sided p-values.
    df_denom : float
        Degrees of freedom of the reference, infinite for a normal one.
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
            One minus the confidence, for each combination by itself, or for all together.
        simultaneous : bool
            As in ``PrivateResults.conf_int``.

        Returns
        -------
        ndarray (k, 2)
            Lower and upper ends in the units of ``effect``; an end may be infinite.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        level = check_alpha(alpha)
        if checked_truth("simultaneous", simultaneous):
            total = self._inference.cov_sampling + self._inference.cov_noise
            lost = (self._restrictions[:, np.isnan(np.diag(total))] != 0).any(axis=1)
            joint = self._restrictions @ np.nan_to_num(total) @ self._restrictions.T
            joint[lost] = joint[:, lost] = np.nan
            level = joint_level(joint, level)
        return self._inference.intervals(self._restrictions, level)

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        ends, effects = self.conf_int(alpha), np.ravel(self.effect)
        frame = pd.DataFrame({"estimate": effects, "lower": ends[:, 0], "upper": ends[:, 1]})
        frame.index = pd.Index([f"c{place}" for place in range(len(frame))])
        label, title = f"combination ({self.method} inference)", "Tests of linear combinations"
        return IntervalFigure(frame, label, title, zero=True)

    def _report(self) -> Report:
        return Report("Tests of linear combinations", (), (Table.of(self.summary_frame()),))

    def _repr_html_(self) -> str:
        """Show `summary` as HTML in a notebook."""
        return self._report().html()

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> object:
        """Return the table of the tests.

        Parameters
        ----------
        xname : sequence of str, optional
            Names of the combinations; c0, c1, ... if not given.
        alpha : float
            One minus the confidence of the intervals.
        title : str, optional
            A title; by default it names the inference where that is not Wald's.

        Returns
        -------
        statsmodels.iolib.table.SimpleTable
            The table.
        """
        if title is None and self.method != "wald":
            title = f"Test for Constraints (p-values and intervals: {self.method})"
        return super().summary(xname=xname, alpha=alpha, title=title)


class JointTest(ContrastResults):  # type: ignore[misc]
    """A joint test of several linear restrictions, in the form of statsmodels' ``ContrastResults``.

    Parameters
    ----------
    inference : Inference
        The one inference behind the results; the p-value is always its own.
    restrictions : ndarray (k, p)
        The combinations.
    values : ndarray (k,)
        Their values under the hypothesis.
    use_f : bool
        Whether the statistic is shown per degree of freedom, as F, or as chi-squared.
    scalar : bool
        Whether the statistic is a float, or an array (1, 1).

    Attributes
    ----------
    statistic, fvalue : float or ndarray (1, 1)
        The statistic (``fvalue`` with ``use_f`` only).
    pvalue : ndarray ()
        The p-value.
    df_num, df_denom : float
        With ``use_f`` the degrees of freedom of numerator and denominator; without, ``df_denom`` is the
        number of restrictions, as in statsmodels.
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
        """Draw the statistic beside its law under the hypothesis, where the p-value is of that law.

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

    def _repr_html_(self) -> str:
        """Show the test as HTML in a notebook."""
        return self._report().html()
