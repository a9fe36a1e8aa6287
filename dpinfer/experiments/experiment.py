"""The public function for the effect of a treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.checks import is_list, is_text, require
from dpinfer.experiments.doubly_robust import DoublyRobust
from dpinfer.experiments.question import TREATMENT, Experiment
from dpinfer.procedures import options
from dpinfer.procedures.keywords import suggests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.stage import Data
    from dpinfer.release import Release

    Columns = str | Sequence[str]


@suggests
def experiment(
    outcome: str,
    treatment: str,
    data: Data | Release | None = None,
    *,
    covariates: Columns = (),
    strata: Columns = (),
    where: str | None = None,
    method: str = "auto",
    trim: float | None = None,
) -> Experiment | DoublyRobust:
    """Estimate the average effect of a treatment in an experiment.

    Parameters
    ----------
    outcome : str
        A numeric column, a Boolean, or an expression such as ``"log(1 + income)"``. Values are clipped to their
        declared bounds; the effect is that on the clipped values.
    treatment : str
        The two arms: a Boolean, a Category of two levels, of which the first is the control, or a condition such as
        ``"arm == 'new'"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a stored release of this question, or of `mean` of the columns by treatment and strata, at
        no further privacy cost.
    covariates : str or sequence of str
        Pretreatment columns: numeric, Boolean, Category (with an indicator for every level but the first), or
        expressions. The effect is adjusted for them, and they are compared between arms.
    strata : str or sequence of str
        Groups within which treatment was assigned: columns of levels, or conditions.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    method : {"auto", "difference", "adjusted", "aipw"}
        Difference in means, or adjusted for the covariates; "auto" adjusts if there are any. Changing among these has
        no privacy cost. "aipw" is doubly robust, for nonrandomised treatments that depend on the covariates.
    trim : float, optional
        With "aipw", the smallest propensity, and one minus the largest, used in weights: from 0.005 to 0.25, by default
        0.01. Propensities are trimmed further if few rows are affected and that costs less than noise.

    Returns
    -------
    Experiment or DoublyRobust
        Its ``fit(privacy)`` returns `ExperimentResults`: the effect with interval and p-value, means and numbers of
        rows by arm, and the balance of covariates. With "aipw" it returns `DoublyRobustResults`: the effect, and the
        coefficients of the models.

    Raises
    ------
    OptionError
        If the treatment does not have two levels, a column is named twice, there is nothing to adjust for, or an option
        has an invalid value; before any budget is spent.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition does not suit the schema; before any budget is spent.
    NotProvedError
        If a person may have several rows.

    Notes
    -----
    One release holds noisy counts, sums and cross-products of the columns, by arm and stratum. With the slopes b1 and
    b0 of the outcome on the covariates within the arms, and shares p1 and p0 of the arms, the adjusted effect is

        (mean of y - b'x in the treated) - (the same in the control), b = p0 b1 + p1 b0,

    the coefficient of the treatment in a regression with all interactions of centred covariates (Lin 2013). Its
    variance is that of ``y - b'x`` in each arm over the size of the arm, plus that of the noise in counts and sums. It
    is valid under heteroskedasticity and for a misspecified regression; the estimand is the population effect. If
    treatment is assigned at random within strata, noise in the slopes biases the effect only to second order; slopes
    that noise hides are shrunk to zero. Without random assignment the estimate need not be a causal effect.

    With "aipw" the effect is the mean of

        m1(x) - m0(x) + D (y - m1(x)) / e(x) - (1 - D) (y - m0(x)) / (1 - e(x)),

    where m1 and m0 are linear regressions of the outcome in the arms, and e is a logit of the treatment (Robins,
    Rotnitzky & Zhao 1994). It is consistent if either model is correctly specified, treatment is as good as random
    given the covariates, and e is bounded away from 0 and 1. Four stages share the budget; `docs/experiments.md`
    describes the method and the errors that intervals include.

    References
    ----------
    Neyman (1923), translated in Statistical Science 5 (1990). Lin (2013), Agnostic notes on regression adjustments to
    experimental data, Annals of Applied Statistics 7. Negi & Wooldridge (2021), Revisiting regression adjustment in
    experiments with heterogeneous treatment effects, Econometric Reviews 40. Robins, Rotnitzky & Zhao (1994),
    Estimation of regression coefficients when some regressors are not always observed, Journal of the American
    Statistical Association 89.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(score=dpi.Real(0, 100), before=dpi.Real(0, 100), trained=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(4000, rng)
    >>> frame["score"] = 0.8 * frame["before"] + 10 * frame["trained"] + rng.uniform(0, 10, 4000)
    >>> data = dpi.PublicData(frame, schema, rng=rng)
    >>> results = dpi.experiment("score", "trained", data, covariates="before").fit(dpi.ZCDP(0.1))
    >>> bool(results.conf_int().loc["effect"].between(8, 12).all())
    True
    """
    require(is_text(treatment), "treatment", treatment, TREATMENT)
    axes = (*options.axes_of(treatment), *options.axes_of(strata))
    bare = is_list(covariates) and not len(covariates)
    columns = () if bare else options.column_texts("covariates", covariates)
    if method == "aipw":
        return DoublyRobust.asking(locals(), axes=axes, covariates=columns, trim=0.01 if trim is None else trim)
    require(trim is None, "trim", trim, 'None but with method="aipw"')
    return Experiment.asking(locals(), axes=axes, covariates=columns)
