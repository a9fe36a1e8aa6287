"""Joint tests of regression coefficients against simulated releases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.errors import NotProvedError
from dpinfer.inference.nulls import Restrictable, simulate
from dpinfer.results.contrasts import check_alpha, linear_constraints, standard_errors
from dpinfer.results.printing import interval_labels
from dpinfer.results.testing.base import TestResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.base import Inference
    from dpinfer.inference.nulls import Draws
    from dpinfer.release.release import AnyRelease

    Array = NDArray[np.float64]

__all__ = ["RegressionTestResults", "restriction_texts", "simulated_test"]

_RAISED = (
    "The noisy error variance is below the standard error of its own privacy noise and is raised, in the statistic and "
    "in every draw."
)
_NOTES = {
    "population": "Score statistic; simulated errors are normal given the regressors.",
    "data": "Score statistic; the hypothesis is about the coefficients in these rows: only privacy noise is random.",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionTestResults(TestResults):
    """A joint test of linear restrictions on coefficients, its p-value simulated.

    ``statistic`` is the score statistic of the restrictions (chi-squared), or that per restriction (F), as
    ``statistic_name`` says; the p-value is the same.

    Attributes
    ----------
    inference : Inference
        The regression; its method gives the intervals in `frame`.
    restrictions : ndarray (k, p)
    targets : ndarray (k,)
        Values of ``restrictions @ params`` under the hypothesis.
    """

    inference: Inference = field(repr=False)
    restrictions: Array = field(repr=False)
    targets: Array = field(repr=False)

    @property
    def df_num(self) -> float:
        """Number of restrictions, as statsmodels has it."""
        return float(len(self.targets))

    @property
    def fvalue(self) -> float:
        """The statistic per restriction."""
        return self.statistic if self.statistic_name == "F" else self.statistic / self.df_num

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the restricted combinations one by one.

        Parameters
        ----------
        alpha : float
            One minus the confidence, for each combination by itself.

        Returns
        -------
        DataFrame (k, 5)
            By restriction: "estimate", "under H0", "std err" (sampling and privacy noise) and the ends of the interval,
            named as in a summary; an end may be infinite.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        ends = self.inference.intervals(self.restrictions, check_alpha(alpha))
        lower, upper = interval_labels(alpha)
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
    """Write linear restrictions as equations, one for each row.

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
    inference: Inference,
    release: AnyRelease,
    r_matrix: object,
    *,
    use_f: bool,
    model_name: str,
    draws: Draws = "adaptive",
    seed: int = 0,
    flags: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> RegressionTestResults:
    """Test linear restrictions on a regression jointly, against releases simulated under them.

    Parameters
    ----------
    inference : Inference
        Of a linear regression on cross-products.
    release : Release or CombinedRelease
        Where it comes from.
    r_matrix : str, list of str, dict, array (k, p) or tuple (R, q)
        Restrictions, as statsmodels reads them.
    use_f : bool
        Show the statistic per restriction.
    model_name : str
        What a refusal calls the model.
    draws : "adaptive" or int
    seed : int
        Public; draws no privacy noise.
    flags, notes : tuple of str
        Those of the regression.

    Returns
    -------
    RegressionTestResults

    Raises
    ------
    NotProvedError
        Where the inference is not that of a linear regression on cross-products.
    OptionError
        Where the restrictions cannot be read, or ``draws`` or ``seed`` has no such value.
    InferenceError
        Where the restrictions are linearly dependent.
    """
    if not isinstance(inference, Restrictable):
        raise NotProvedError(
            f'null="simulated" is proved for a linear regression on cross-products (dpinfer.ols, or its formula on a '
            f'release of dpinfer.gram), and {model_name} is none; null="asymptotic" serves it'
        )
    restrictions, targets = linear_constraints(r_matrix, inference.names)
    null = inference.restricted(restrictions, targets)
    found = simulate(null.model, null.values, draws=draws, seed=seed)
    if use_f:
        found = replace(found, statistic=found.statistic / len(targets), sample=found.sample / len(targets))
    lost = () if np.isfinite(found.statistic) else ("the statistic cannot be computed from this release",)
    return RegressionTestResults(
        title="F test of linear restrictions" if use_f else "Wald test of linear restrictions",
        hypothesis=", ".join(restriction_texts(restrictions, targets, inference.names)),
        statistic=found.statistic,
        pvalue=found.pvalue,
        release=release,
        statistic_name="F" if use_f else "Chi-squared",
        dof=float(len(targets)),
        distribution=found,
        nobs=inference.nobs,
        nobs_is_public=inference.nobs_is_public,
        flags=(*flags, *lost),
        notes=(_NOTES[inference.target], *([_RAISED] if null.raised else []), *notes),
        inference=inference,
        restrictions=restrictions,
        targets=targets,
    )
