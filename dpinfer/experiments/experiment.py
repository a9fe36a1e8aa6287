"""The public function that asks for the effect of a treatment."""

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
        A numeric column, a Boolean, or an expression such as ``"log(1 + income)"``. Values are clamped to their
        declared bounds, and the effect is that on clamped values.
    treatment : str
        The arms, of which there are two: a Boolean, a Category of two levels, the first of which is the control, or a
        condition such as ``"arm == 'new'"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the columns by treatment and strata, which costs
        nothing more.
    covariates : str or sequence of str
        Columns known before treatment: numeric, Boolean, Category (of which every level but the first is a column), or
        expressions. They adjust the effect and are compared between arms.
    strata : str or sequence of str
        Groups within which treatment was assigned: columns of levels, or conditions.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    method : {"auto", "difference", "adjusted", "aipw"}
        Difference in means, or adjusted for the covariates, which "auto" does where there are any: free to change.
        "aipw" is doubly robust, for treatments that were not assigned at random but depend on the covariates.
    trim : float, optional
        With "aipw" the least propensity, and one minus the largest, that weights are made of: from 0.005 to 0.25, by
        default 0.01. It is trimmed further where few rows are beyond and that costs less than noise.

    Returns
    -------
    Experiment or DoublyRobust
        Its ``fit(privacy)`` gives `ExperimentResults`: the effect with interval and p-value, means and numbers of rows
        by arm, and the balance of covariates. With "aipw" they are `DoublyRobustResults`: the effect, and the
        coefficients of the models.

    Raises
    ------
    OptionError
        Before anything is spent: if the treatment has other than two levels, a column is named twice, there is nothing
        to adjust for, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition cannot be served from the schema, likewise.
    NotProvedError
        Where a person may have several rows.

    Notes
    -----
    One release holds noisy counts, sums and cross-products of the columns, by arm and stratum. With the slopes b1 and
    b0 of the outcome on the covariates within the arms, and shares p1 and p0 of the arms, the adjusted effect is

        (mean of y - b'x in the treated) - (the same in the control), b = p0 b1 + p1 b0,

    the coefficient of the treatment in a regression with all interactions of centred covariates (Lin 2013). Its
    variance is that of ``y - b'x`` in each arm over the size of the arm, and that of the noise in counts and sums. It
    holds under heteroskedasticity and where the regression is wrong, and is about the population that rows come from.
    Noise in the slopes biases the effect in the second order alone where treatment is assigned at random within strata;
    slopes that noise hides are shrunk to zero. Without random assignment the estimate need not be an effect.

    With "aipw" the effect is the mean of

        m1(x) - m0(x) + D (y - m1(x)) / e(x) - (1 - D) (y - m0(x)) / (1 - e(x)),

    m1 and m0 linear regressions of the outcome in the arms, e a logit of the treatment (Robins, Rotnitzky & Zhao 1994).
    It is consistent if one of the two models is right, treatment is as good as random given the covariates, and e stays
    away from 0 and 1. Four stages share the budget; `docs/experiments.md` has the method and what intervals count.

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
