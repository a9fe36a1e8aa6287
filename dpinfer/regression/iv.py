"""Instrumental variables: two-stage least squares and LIML from noisy cross-products."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pandas as pd

from dpinfer.checks import one_of
from dpinfer.errors import FormulaError, InferenceError, NotProvedError
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import inferred, measured, where_notes
from dpinfer.regression.gram import GramDesign
from dpinfer.regression.gram_inference import gram_problem
from dpinfer.regression.iv_inference import METHODS, WEAK, IVFit, IVInference, partialled, refuse_several
from dpinfer.regression.linear import SHARE, Gram, OfFormula, OfProducts, clamped_notes
from dpinfer.results.base import PrivateResults
from dpinfer.results.printing import alike_flags
from dpinfer.results.testing import TestResults, check_alpha
from dpinfer.schema.basis import represent
from dpinfer.schema.formula import CompiledFormula, FormulaDesign, brackets_of, compile_formula, two_sided
from dpinfer.statistics.arrays import symmetric

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.schema.formula import DesignColumn
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Released

__all__ = ["IV", "IVResults", "OveridentificationTest", "iv"]

_ASSUMED = (
    "Standard errors are unadjusted: they assume homoskedastic errors. Robust ones cannot be estimated from "
    "cross-products."
)


@suggests
def iv(
    formula: str,
    data: Data | Release | Gram | None = None,
    *,
    method: Literal["2sls", "liml"] = "2sls",
    where: str | None = None,
    clamped_share: float = 0.0,
    inference: Literal["auto", "anderson-rubin", "wald"] = "auto",
) -> IV:
    """Linear regression with instrumental variables under differential privacy.

    Parameters
    ----------
    formula : str
        Such as ``"lwage ~ 1 + exper + [educ ~ nearc4 + nearc2]"``: exogenous regressors, and in brackets the endogenous
        regressors before and the instruments after the tilde, as in linearmodels. Terms are those of `ols`; there is an
        intercept unless the formula has ``0``.
    data : PrivateData, PublicData, Release or Gram, optional
        Rows to measure, or a stored release of cross-products that spans the columns. Nothing is read or spent here.
    method : {"2sls", "liml"}
        Two-stage least squares, or limited information maximum likelihood. Changing it has no privacy cost.
    where : str, optional
        A condition on declared columns, such as ``"age >= 18"``; other rows are ignored.
    clamped_share : float
        Share of the budget, below one half, spent on a noisy count of rows with a value outside its bounds.
    inference : {"auto", "anderson-rubin", "wald"}
        "anderson-rubin", the default for one endogenous regressor, is valid however weak the instruments and however
        large the noise; its intervals may be unbounded or empty. For several endogenous regressors only "wald" is
        available, whose intervals are too short under weak instruments. ``with_inference`` changes the method at no
        privacy cost.

    Returns
    -------
    IV
        With ``.explain(privacy)``, ``.measure(privacy)``, and ``.fit(privacy)`` and ``.infer()``, which return
        `IVResults`.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError
        If the formula does not have exactly one bracket ``[x ~ z]``, has fewer instruments than endogenous regressors,
        names a term twice, or has the response or an intercept in the bracket; or if a column cannot be bounded from
        the schema. They are raised before any budget is spent.
    MissingFromReleaseError
        On ``infer``, if a release lacks a column.
    OptionError
        If an argument has an invalid value.
    NotProvedError
        On ``infer`` from a release whose rows were weighted by ``row_norm``.

    Notes
    -----
    One release of noisy cross-products of all columns gives the estimates, the first stage, the overidentification
    test, and any regression among the columns by `ols`. Exogenous regressors are partialled out of the instruments Z,
    the response y and the endogenous x. At the true coefficient b the moments ``g(b) = Z'(y - x b)`` have mean zero and
    covariance ``V(b) = s(b)^2 Z'Z + N(b)``, where N follows from the known noise of every cross-product. The reference
    distribution of ``g' V^-1 g`` is k times an F distribution with k (the number of instruments) and the degrees of
    freedom of s^2 (Anderson & Rubin 1949). Without noise this is the usual F test. As the share of noise in V grows, so
    do the degrees of freedom (Satterthwaite 1946), towards a chi-squared distribution with k. Errors are assumed
    homoskedastic, and intervals are for the population coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(z=dpi.Real(-1, 1), x=dpi.Real(-3, 3), y=dpi.Real(-4, 4))
    >>> rng = np.random.default_rng(1)
    >>> frame, hidden = schema.sample(20_000, rng), rng.uniform(-1, 1, 20_000)
    >>> frame["x"] = frame["z"] + hidden + rng.uniform(-0.5, 0.5, 20_000)
    >>> frame["y"] = 0.5 * frame["x"] + hidden
    >>> results = dpi.iv("y ~ 1 + [x ~ z]", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(results.conf_int().loc["x"].between(0.3, 0.7).all())
    True
    >>> bool(results.first_stage.loc["x", "weak"])
    False
    """
    return IV.asking(locals(), source=data.release if isinstance(data, Gram) else data)


@dataclass(frozen=True, eq=False)
class IVDesign(GramDesign):
    """The columns of the regression: exogenous regressors, instruments, endogenous regressors, response."""

    @cached_property
    def parts(self) -> tuple[tuple[DesignColumn, ...], tuple[DesignColumn, ...], tuple[DesignColumn, ...]]:
        """Exogenous regressors, instruments and endogenous regressors.

        Raises
        ------
        FormulaError
        """
        before, inside, after = _split(str(self.formula))
        endogenous, instruments = inside
        whole = two_sided(f"{before}({endogenous}){after}", self.schema)
        regressors, first_stage = whole.design, two_sided(f"{before}({instruments}){after}", self.schema).design
        explained, explaining = (_terms(side, whole.response, self.schema) for side in inside)
        reached = (explained & {column.term for column in first_stage}, explaining & {one.term for one in regressors})
        for term in sorted(reached[0] | reached[1]):
            roles = ["endogenous"] * (term in explained) + ["an instrument"] * (term in explaining)
            both = [*roles, "an exogenous regressor"][:2]
            raise FormulaError(
                term, f"is {' and '.join(both)}", "name it once: exogenous regressors are instruments, too"
            )
        exogenous = tuple(column for column in regressors if column.term not in explained)
        if exogenous != tuple(column for column in first_stage if column.term not in explaining):
            raise FormulaError(endogenous, "changes how exogenous factors are coded", "write their main effects, too")
        found = (
            exogenous,
            tuple(column for column in first_stage if column.term in explaining),
            tuple(column for column in regressors if column.term in explained),
        )
        if len(found[1]) < len(found[2]):
            reason = f"has {len(found[1])} instruments for {len(found[2])} endogenous regressors"
            raise FormulaError(str(self.formula), reason, "name at least as many instruments")
        return found

    @cached_property
    def compiled(self) -> CompiledFormula:
        """All measured columns."""
        exogenous, instruments, endogenous = self.parts
        before, inside, after = _split(str(self.formula))
        whole = two_sided(f"{before}({' + '.join(inside)}){after}", self.schema)
        design = (*exogenous, *instruments, *endogenous)
        return CompiledFormula(whole.text, whole.response, design, whole.columns, whole.has_intercept)


def _split(formula: str) -> tuple[str, tuple[str, str], str]:
    """Return the text before the bracket, both sides of its tilde, and the text after it.

    Raises
    ------
    FormulaError
    """
    found = brackets_of(formula)
    instead = 'write "y ~ 1 + w + [x ~ z]": endogenous regressors before the tilde, their instruments after it'
    if len(found) != 1:
        raise FormulaError(formula, f"has {len(found) or 'no'} brackets instead of one", instead)
    (start, stop), *_ = found
    if brackets_of(formula[start + 1 : stop]):
        raise FormulaError(formula, "has brackets within the bracket", instead)
    before, after = formula[:start].rstrip(), formula[stop + 1 :].lstrip()
    left, *right = formula[start + 1 : stop].split("~")
    if len(right) != 1 or not (left.strip() and right[0].strip()):
        raise FormulaError(formula, "has a bracket that is not [x ~ z]", instead)
    if not before.partition("~")[0].strip() or "~" not in before:
        raise FormulaError(formula, "has no dependent variable before the bracket", instead)
    if not before.endswith(("~", "+")) or (after and not after.startswith(("+", "-"))):
        raise FormulaError(formula, "has a bracket that is not added to the other terms", instead)
    return before, (left.strip(), right[0].strip()), after


def _terms(side: str, response: DesignColumn | None, schema: Schema) -> set[str]:
    """Return the terms of a side of the bracket.

    Raises
    ------
    FormulaError
        If it has an intercept term or the response.
    """
    compiled = compile_formula(f"0 + {side}", schema)
    if compiled.has_intercept or not compile_formula(side, schema).has_intercept:
        raise FormulaError(side, "specifies the intercept inside the bracket", "write 0 or 1 outside of it")
    for column in compiled.design:
        if response is not None and (column.expression, column.codings) == (response.expression, response.codings):
            raise FormulaError(column.term, "is the response, but occurs in the bracket", "leave it out there")
    return {column.term for column in compiled.design}


@dataclass(frozen=True, eq=False)
class IV(OfFormula):
    """A linear regression with instrumental variables. See `iv`."""

    procedures = ("iv",)

    where: str | None = None
    clamped_share: float = measured(0.0, SHARE)
    method: Literal["2sls", "liml"] = inferred("2sls", one_of(("2sls", "liml")))
    inference: Literal["auto", "anderson-rubin", "wald"] = inferred("auto", one_of(METHODS))

    def check_options(self) -> None:
        """Refuse a formula without a bracket, and a condition that differs from the release's."""
        _split(self.formula)
        super().check_options()

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a formula that the schema cannot bound, and an unsuitable inference."""
        super().check(schema, neighbors)
        refuse_several(self.inference, len(self.design(schema).parts[2]))

    def design(self, schema: Schema) -> IVDesign:
        """Compile the columns against a schema."""
        return IVDesign(schema, formula=self.formula, where=self.where, clamped_share=self.clamped_share)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement; the bounds alone do not determine the noise of the estimates."""
        return (
            f"{measured.describe()}\nThe width of intervals depends on the first stage, about which bounds say "
            "nothing: dpi.plan(question, pilot=...) forecasts it from similar public rows."
        )

    def infer(self, release: Release | None = None) -> IVResults:
        """Infer from a stored release of this question, or of cross-products that span its columns.

        Raises
        ------
        MissingFromReleaseError
            If the release lacks a column.
        NotProvedError
            If its rows were weighted by their regressors, including endogenous ones.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, OfProducts)  # `reads` refuses other questions
        held, asked = theirs.design(found.schema), self.design(found.schema)
        if held.row_norm is not None:
            raise NotProvedError(
                "rows are weighted by all regressors here, also endogenous ones: release without row_norm="
            )
        columns = self.measured_columns(found, lambda: asked.columns)
        exogenous, instruments, endogenous = asked.parts
        clamped, warned = clamped_notes(found)
        inference = replace(
            self._inferred(found, represent(held.basis, columns), found.array[None], asked),
            nobs=float(found.array[0]),
            nobs_is_public=bool(found.law.scales[0] == 0.0),
            notes=(*warned, *alike_flags(found.schema, "population")),
        )
        strengths = ", ".join(f"{one:.4g}" for one in inference.strengths[0])
        told = (
            f"Endogenous: {', '.join(inference.endogenous)}; instruments: "
            f"{', '.join(one.name for one in instruments)}; first-stage F, including noise: {strengths}."
        )
        return IVResults(
            inference,
            found,
            model_name=f"Private IV-{self.method.upper()}",
            response=columns[-1].name,
            notes=(told, *where_notes(held.where), _ASSUMED, *clamped),
            design=FormulaDesign(found.schema, (*exogenous, *endogenous)),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        asked = self.design(released.schema)
        columns = represent(released.rows.features.basis, asked.columns)
        return self._inferred(released, columns, released.values, asked).batch(alpha, contrasts)

    def _inferred(self, source: Release | Released, columns: Array, values: Array, asked: IVDesign) -> IVInference:
        """Infer from sums (R, m) whose features the columns (q, d) of the question combine."""
        exogenous, instruments, endogenous = (tuple(one.name for one in part) for part in asked.parts)
        alike, gram = source.schema.rows_per_unit, symmetric(values, columns.shape[1])
        problem = gram_problem(source.law, source.steps, columns[:-1], columns[-1], rows_per_unit=alike)
        moments = partialled(problem, gram, gram[:, 0, 0], len(exogenous), len(instruments))
        fit = IVFit(moments, self.method == "liml")
        return IVInference((*exogenous, *endogenous), fit, endogenous).with_method(self.inference)


class IVResults(PrivateResults):
    """Instrumental-variables coefficients, with all members of `PrivateResults`.

    Intervals and p-values of one endogenous coefficient invert the Anderson-Rubin test. Those of exogenous coefficients
    and other combinations invert the same test, minimised over the endogenous coefficient. Joint tests of several
    coefficients are Wald tests.
    """

    @property
    def first_stage(self) -> pd.DataFrame:
        """Strength of the instruments for each endogenous regressor.

        "F" tests all instruments in the first stage and allows for the noise; "P>F" is its p-value. "F without noise"
        estimates the F of the same rows without noise. "weak" is whether F is below 10 (Staiger & Stock 1997).
        """
        inference = self._iv
        rows = []
        for place in range(len(inference.endogenous)):
            counted, pvalue, plain = (float(found[0]) for found in inference.fit.first_stage(place))
            rows.append((counted, pvalue, plain, counted < WEAK))
        columns = ["F", "P>F", "F without noise", "weak"]
        return pd.DataFrame(rows, index=list(inference.endogenous), columns=columns)

    @property
    def sargan(self) -> OveridentificationTest:
        """Test the overidentifying restrictions by the minimum Anderson-Rubin statistic.

        This is Sargan's test in Basmann's form, at the limited-information estimate, with the noise of the release in
        the covariance of the moments. Its degrees of freedom are the number of instruments minus that of endogenous
        regressors.

        Raises
        ------
        InferenceError
            If there are not more instruments than endogenous regressors.
        """
        inference = self._iv
        beyond = inference.fit.count - len(inference.endogenous)
        if beyond == 0:
            raise InferenceError("with as many instruments as endogenous regressors there is nothing to test")
        statistic, pvalue = inference.fit.overidentification()
        return OveridentificationTest(
            title="Sargan test of overidentification",
            hypothesis="all instruments are exogenous",
            statistic=float(statistic[0]),
            pvalue=float(pvalue[0]),
            release=self.release,
            statistic_name="Chi-squared",
            dof=float(beyond),
            null="asymptotic",
            nobs=inference.nobs,
            nobs_is_public=inference.nobs_is_public,
            flags=self.flags,
            strengths=self.first_stage,
        )

    def confidence_set(self, alpha: float = 0.05) -> tuple[str, tuple[tuple[float, float], ...]]:
        """Return the Anderson-Rubin confidence set of the endogenous coefficient.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        kind : {"bounded", "unbounded", "whole line", "empty"}
            A set can be empty only if overidentifying instruments disagree.
        pieces : tuple of pairs
            Endpoints of its pieces, of which there may be two; ``conf_int`` gives the smallest interval that contains
            them.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        InferenceError
            If there are several endogenous regressors.
        """
        check_alpha(alpha)
        if len(self._iv.endogenous) > 1:
            raise InferenceError("Anderson-Rubin sets are for one endogenous regressor")
        return self._iv.sets(alpha)

    @property
    def _iv(self) -> IVInference:
        assert isinstance(self._inference, IVInference)
        return self._inference


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OveridentificationTest(TestResults):
    """A test of the overidentifying restrictions, together with the first stage.

    Attributes
    ----------
    strengths : DataFrame
        `IVResults.first_stage`.
    """

    strengths: pd.DataFrame = field(repr=False)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:  # noqa: ARG002
        """Return the strength of the instruments; the test has little power if they are weak."""
        return self.strengths.drop(columns="weak")
