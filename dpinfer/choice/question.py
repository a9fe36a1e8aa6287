"""Regressions of a categorical response: `mnlogit` for unordered levels, `ordered` for ordered ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.checks import one_of, require
from dpinfer.choice.results import ChoiceResults
from dpinfer.choice.stages import CHOICES, ChoiceColumns, ChoiceModel, ChoicePlan
from dpinfer.errors import FormulaError, NotProvedError, ReleaseFormatError
from dpinfer.kernel.rows.iterations import MOST_COORDINATES
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import measured
from dpinfer.procedures.procedure import context_of
from dpinfer.regression.inference import RegressionInference
from dpinfer.regression.question import UNLIKELY, Newton, fitted, notes_of, reading
from dpinfer.schema.formula import FormulaDesign

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Context, Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["Choice", "estimated_choice", "mnlogit", "ordered"]

_columns = lru_cache(maxsize=16)(ChoiceColumns)
_plan = lru_cache(maxsize=16)(ChoicePlan)
"""One plan for all stages of a question, and for what is inferred from them."""

_UNUSED = ("parameter", "weights", "offset", "exposure", "groups")


@dataclass(frozen=True, eq=False)
class Choice(Newton):
    """A regression of a categorical response. See `mnlogit`, `ordered`."""

    procedures = ("choice",)

    model: str = measured("mnlogit", one_of(tuple(CHOICES)))

    @property
    def kind(self) -> ChoiceModel:
        """The model."""
        return CHOICES[self.model]

    def check_options(self) -> None:
        """Refuse options that only other regressions have."""
        for name in _UNUSED:
            require(getattr(self, name) is None, name, getattr(self, name), f"None: {self.model} has no {name}=")
        require(self.cov_type == "HC1", "cov_type", self.cov_type, "HC1")
        require(not self.margins, "margins", True, "False: effects are at public points")

    def columns(self, schema: Schema) -> ChoiceColumns:
        """Return the columns, compiled against a schema."""
        return _columns(schema, self.formula, self.where)

    def plan(self, context: Context) -> ChoicePlan:
        """Build the stages."""
        return _plan(self.columns(context.schema), self.kind, 1.0, context, self.ranges is not False)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound, and a response that is not a suitable Category."""
        columns = self.columns(schema)
        if columns.within is not None:
            raise NotProvedError(f"individual effects are available in ols, not in {self.model}")
        _ = columns.maps, columns.independent  # each is refused where there is none
        if self.kind.ordered and not columns.intercept:
            raise FormulaError(self.formula, "has no constant, which the thresholds replace", "drop 0 +")
        if self.kind.ordered and len(columns.names) < 2:
            raise FormulaError(self.formula, "has no regressors", "write at least one")
        width = self.kind.designs(len(columns.texts), len(columns.names)).shape[1]
        if width > MOST_COORDINATES:
            told = f"has {width} coefficients with the levels of {columns.response.name}"
            raise FormulaError(self.formula, told, f"at most {MOST_COORDINATES} are fitted: leave out regressors")

    def infer(self, release: Release | None = None) -> ChoiceResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, Choice)
        plan = theirs.plan(context_of(found))
        with reading():
            estimated = estimated_choice(plan, found.stages, self.inference, self.target)
            if not np.isfinite([estimated.params, np.diag(estimated.cov_sampling + estimated.cov_noise)]).all():
                raise ReleaseFormatError(UNLIKELY)
            notes = notes_of(plan, found.stages, estimated, self.where)
        if not plan.model.ordered:
            notes.append(f"Coefficients compare each level with {plan.columns.texts[0]}.")
        return ChoiceResults(
            estimated,
            found,
            kind=plan.model,
            levels=plan.columns.texts,
            points=FormulaDesign(found.schema, plan.columns.compiled.design),
            response=plan.columns.response.name,
            notes=tuple(notes),
        )


def estimated_choice(
    plan: ChoicePlan, released: tuple[StageRelease, ...], method: str = "auto", target: str = "population"
) -> RegressionInference:
    """Return the estimates from the stages."""
    stages = dict(zip(plan.kinds, released, strict=True))
    start, fit = plan.begun(stages["start"]), fitted(plan, stages)
    names, weights = plan.coefficients(start)
    turned = plan.in_order(fit.params)[1]
    pairs = ", ".join(f"{plan.columns.texts[one]}/{plan.columns.texts[one + 1]}" for one in turned)
    people = plan.context.schema.rows_per_unit
    return RegressionInference(
        names,
        fit,
        weights,
        np.zeros(len(names)),
        nobs=start.rows[0],
        nobs_is_public=plan.public_size is not None,
        target=target,
        method=method,
        cov_type="cluster" if people > 1 else "HC1",
        notes=(f"thresholds not distinguished from those below: {pairs}",) if turned else (),
    )


@suggests
def mnlogit(
    formula: str,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    ranges: bool | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Choice:
    """Multinomial logistic regression under differential privacy, with robust standard errors.

    Parameters
    ----------
    formula : str
        Such as ``"party ~ income + age"``, as in `ols`. The response is a Category of 3 to 12 levels; the first is the
        reference level.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    where : str, optional
        A condition on declared columns, such as ``"age >= 18"``; other rows are treated as absent.
    ranges : bool, optional
        Whether to spend a small share of the budget on finding where most values of the numeric columns lie. By default
        it is spent.
    inference : {"auto", "wald", "score"}
        Method of intervals, p-values and tests alike; "auto" is Wald, or score where noise dominates.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only.

    Returns
    -------
    Choice
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``; results are
        `ChoiceResults`. A coefficient is called ``"level: regressor"``.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError
        If the formula cannot be bounded from the schema, or the response is not such a Category. They are raised before
        any budget is spent.
    OptionError
        If an option has an invalid value.

    Notes
    -----
    Let p_k be the probability of level k, proportional to exp(x'b_k) with b_1 = 0. A row has the score x (1{y = k} -
    p_k) and the Hessian x x' (p_k 1{k = l} - p_k p_l) in the stacked coefficients; noisy Newton iterations release
    both, as in `logit`. See `docs/choice.md`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(20_000, rng)
    >>> odds = np.exp(np.outer(frame["x"], [0.0, 1.0, 2.0]))
    >>> below = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    >>> frame["y"] = np.array(["a", "b", "c"])[(rng.random((20_000, 1)) > below[:, :2]).sum(axis=1)]
    >>> results = dpi.mnlogit("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["c: x"] - 2) < 5 * results.bse["c: x"])
    True
    """
    return Choice.asking(locals(), model="mnlogit")


@suggests
def ordered(
    formula: str,
    data: Data | Release | None = None,
    *,
    distr: str = "logit",
    where: str | None = None,
    ranges: bool | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Choice:
    """Ordered regression (proportional odds, or ordered probit) under differential privacy.

    Parameters
    ----------
    formula, data, where, ranges, inference, target
        As in `mnlogit`; the levels have the order in which the Category declares them.
    distr : {"logit", "probit"}
        Distribution of the error of the latent variable, as in statsmodels' ``OrderedModel``.

    Returns
    -------
    Choice
        As in `mnlogit`. Coefficients are the slopes, named after the regressors, and the thresholds, named
        ``"level/next level"``: P(y <= level) = F(threshold - x'slopes). (statsmodels reports the logarithms of the
        differences of thresholds instead.)

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError, OptionError
        As in `mnlogit`; also for a formula that removes the constant, whose part the thresholds take, or one without
        regressors.

    Notes
    -----
    Iterations keep the thresholds in increasing order. The final estimates are reported unconstrained: where noise has
    reversed two of them, ``flags`` names them, and predicted probabilities use the larger one for both.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Category(["low", "middle", "high"]))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(20_000, rng)
    >>> latent = 2 * frame["x"] + rng.logistic(size=20_000)
    >>> frame["y"] = np.array(["low", "middle", "high"])[np.digitize(latent, [-1.0, 1.0])]
    >>> results = dpi.ordered("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 2) < 5 * results.bse["x"])
    True
    """
    require(isinstance(distr, str) and distr in ("logit", "probit"), "distr", distr, ("logit", "probit"))
    return Choice.asking(locals(), model=f"ordered-{distr}")
