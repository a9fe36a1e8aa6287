"""Linear regression: `ols`, and `gram`, whose noisy cross-products give many regressions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from dpinfer.checks import Allowed, of_type, one_of, texts_of
from dpinfer.errors import InferenceError, MissingFromReleaseError, OptionError, UnknownColumnError
from dpinfer.kernel.rows.features import NORMS
from dpinfer.kernel.rows.products import GramSum
from dpinfer.procedures.keywords import INSTEAD, suggests
from dpinfer.procedures.options import inferred, measured, refuse_simulated, where_notes
from dpinfer.procedures.procedure import Estimated, Procedure, sizes_shown
from dpinfer.regression.absorbed import AbsorbedOLS
from dpinfer.regression.design import EFFECTS
from dpinfer.regression.gram import (
    ASSUMED,
    GramDesign,
    expected_noise,
    expected_ratios,
    row_norm_effect,
    suggested_row_norm,
)
from dpinfer.regression.gram_inference import METHODS, batch_linear, gram_problem, linear_inference, linear_oracle
from dpinfer.regression.near_empty import level_columns
from dpinfer.regression.question import COVARIANCES, Newton
from dpinfer.release import Release, StageRelease
from dpinfer.results.base import PrivateResults
from dpinfer.results.printing import alike_flags
from dpinfer.schema.basis import represent
from dpinfer.schema.formula import FormulaDesign, two_sided

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Data, Stage
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.options import Contrasts
    from dpinfer.regression.gram import GramProblem
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Oracle, Released

__all__ = ["OLS", "Gram", "first_difference", "gram", "ols"]

T = TypeVar("T")

_METHODS = ("auto", "newton", "gram")
_OF_NEWTON: dict[str, Any] = {"ranges": True, "weights": None, "cov_type": None, "groups": None}
_OF_GRAM: dict[str, Any] = {
    "row_norm": None,
    "norm": "l2",
    "split": None,
    "clamped_share": 0.0,
    "replicates": 999,
    "seed": 0,
}
"""Options that only one method has, with their defaults; a Gram knows one value of ``cov_type``, too."""
_NEWTON_ONLY = {
    "ranges": 'nothing: it is an option of method="newton"',
    "groups": 'nothing: it is an option of method="newton"',
    "weights": f'nothing: it is an option of method="newton"; {INSTEAD["weights"]}',
    "cov_type": f'"nonrobust": robust standard errors cannot be computed from cross-products; {INSTEAD["cov_type"]}',
}

SHARE = Allowed(
    lambda given: isinstance(given, int | float) and 0 <= given < 0.5,
    "a share of the privacy budget from 0 to below 0.5",
)
FORMULA = Allowed(lambda given: isinstance(given, str), 'a formula such as "income ~ age"')


@suggests
def ols(
    formula: str,
    data: Data | Release | Gram | None = None,
    *,
    method: Literal["auto", "newton", "gram"] | None = "auto",
    cov_type: Literal["HC1", "nonrobust", "cluster"] | None = None,
    groups: str | None = None,
    weights: str | None = None,
    absorb: str | None = None,
    where: str | None = None,
    ranges: bool = True,
    row_norm: float | None = None,
    norm: Literal["l2", "l1"] = "l2",
    split: tuple[float, float, float] | None = None,
    clamped_share: float = 0.0,
    inference: str = "auto",
    target: str = "population",
    replicates: int = 999,
    seed: int = 0,
) -> OLS | Newton | AbsorbedOLS:
    """Linear regression by ordinary least squares under differential privacy.

    Parameters
    ----------
    formula : str
        Such as ``"income ~ age + C(race)"``, in the grammar of statsmodels formulas. Transforms of a row are allowed
        (``log(1 + income)``, ``I(age**2)``, ``I(age > 30)``); functions of a whole column are refused. Outside ``I()``
        the operators ``+ - * : / **`` combine terms, as in ``(age + educ)**2``. If the data have people with several
        rows (``id=``), the term ``EntityEffects`` gives each person a separate intercept: the within estimator for
        panel data. Adding ``C(year)`` gives each period one as well.
    data : PrivateData, PublicData, Release or Gram, optional
        Rows to measure, or a stored release that spans the columns. Nothing is read or spent here.
    method : {"auto", "newton", "gram"}
        "newton" releases noisy Newton iterations for this one regression, with robust standard errors. "gram" releases
        noisy cross-products, which can be used for many regressions; their noise grows with the declared bounds, and
        standard errors assume homoskedasticity. "auto", or None, uses what a release holds; for rows it uses
        cross-products if an option of "gram" is set, and iterations otherwise: see Notes.
    cov_type : {"HC1", "nonrobust", "cluster"}, optional
        For "newton" it is chosen before the rows are read. "HC1", the default, gives heteroskedasticity-robust standard
        errors. "nonrobust" assumes a correctly specified model with homoskedastic errors, and spends their share of the
        privacy budget on the estimate. "cluster" allows errors to be correlated within ``groups``, and spends more of
        the budget on standard errors. "gram" supports "nonrobust" only.
    groups : str, optional
        Column whose levels, which are public, are the clusters, such as states; for "newton". Tests use a t
        distribution with at most G - 1 degrees of freedom for G clusters, and fewer if noise dominates the variance
        between them.
    weights : str, optional
        For "newton": a bounded, nonnegative column of survey weights, or an expression of such columns. Estimates solve
        sum w x (y - x'b) = 0, with the robust standard errors of statsmodels' WLS. See `logit`.
    absorb : str, optional
        Column of public levels, such as the industry: each level has its own intercept, which is not reported. Slopes
        and nonrobust standard errors are those of ``C(industry)`` in the formula, from noisy sums by level and
        cross-products. Hundreds of levels are feasible. It needs "gram", without its other options.
    where : str, optional
        A condition on declared columns, such as ``"age >= 18"``; other rows are ignored.
    ranges : bool
        For "newton": whether to spend a small share of the privacy budget on the ranges in which most values of the
        numeric columns lie.
    row_norm : float, optional
        For "gram", as are ``norm``, ``split``, ``clamped_share``, ``replicates`` and ``seed``. Bound on the norm of a
        row of scaled regressors, the constant included. Rows with a larger norm (high leverage) are downweighted, which
        reduces the noise. Weights depend on regressors only: a linear model stays consistent.
    norm : {"l2", "l1"}
        Norm of ``row_norm``; ``"l1"`` with `PureDP` is the classical form with bounds C1 on the regressors'
        absolute sum and C2 (the response's declared bound).
    split : tuple of three floats, optional
        Shares of the privacy budget for X'X, X'y and y'y; by default they are released jointly, with less noise.
    clamped_share : float
        Share of the privacy budget, below one half, spent on a noisy count of rows with a value outside its bounds.
    inference : {"auto", "wald", "score", "simulated"}
        Method of intervals, p-values and tests. "auto" is "score" for a Gram; for iterations it is "wald", or "score"
        where privacy noise dominates. `with_inference` changes it later at no privacy cost.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only.
    replicates, seed : int
        Number of simulated releases and public seed, for ``inference="simulated"``.

    Returns
    -------
    OLS
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError
        If the formula cannot be bounded from the schema, before any budget is spent.
    MissingFromReleaseError
        On ``infer``, if a release lacks a column.
    OptionError
        If an argument has an invalid value.
    NotProvedError
        For ``cov_type="nonrobust"`` with ``weights``, or if a person may have several rows.

    Notes
    -----
    The cross-products of bounded features are released with discrete Gaussian noise (discrete Laplace under `PureDP`).
    The estimate solves the noisy normal equations, and its covariance is ``s^2 S^-1 + S^-1 Cov(E a) S^-1`` with ``a =
    (-b, 1)`` (Vu & Slavkovic 2009; Sheffet 2017).

    Which method has the shorter intervals depends on the rows, so "auto" does not guess. Privacy noise inflates the
    variances of both by a factor that tends to 1 at rate 1/n. Which factor is smaller depends little on n or on the
    privacy budget, and mainly on how much of their declared range the columns and the errors use: iterations adapt to
    that, cross-products do not. If the data fill their bounds, regressions with few columns have shorter intervals from
    cross-products; otherwise iterations do. The two also make different assumptions: if the bounds are tight and errors
    are homoskedastic, compare the output of `explain` for each.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(2000, rng)
    >>> frame["y"] = 0.5 * frame["x"] + rng.uniform(-0.5, 0.5, 2000)
    >>> results = dpi.ols("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 0.5) < 5 * results.bse["x"])
    True
    """
    source = data.release if isinstance(data, Gram) else data
    if method not in (None, *_METHODS):
        raise OptionError("method", method, _METHODS)
    asked = locals()
    of_gram = [name for name, default in _OF_GRAM.items() if asked[name] != default]
    of_newton = [name for name, default in _OF_NEWTON.items() if asked[name] != default]
    if cov_type == "nonrobust":
        of_newton.remove("cov_type")
    if absorb is not None:
        return _absorbing(asked, source, (*of_newton, *of_gram))
    if method in (None, "auto"):
        if isinstance(source, Release):
            method = "newton" if source.question.get("procedure") == "newton" else "gram"
        else:
            method = "gram" if (of_gram or inference == "simulated") and not of_newton else "newton"
    if method == "gram":
        if isinstance(formula, str) and EFFECTS.search(formula):
            raise OptionError("method", "gram", '"newton": only iterations have individual effects')
        for name in of_newton:
            raise OptionError(name, asked[name], _NEWTON_ONLY[name])
        return OLS.asking(asked, source=source)
    if cov_type not in (None, *COVARIANCES):
        raise OptionError("cov_type", cov_type, COVARIANCES)
    for name in of_gram:
        beside = f", and {of_newton[0]}= one of the other" if of_newton else ""
        raise OptionError(name, asked[name], f'{_OF_GRAM[name]!r}: it is an option of method="gram"{beside}')
    return Newton.asking(asked, source=source, model="ols", cov_type=cov_type or ("cluster" if groups else "HC1"))


def _absorbing(asked: Mapping[str, Any], source: Any, others: Sequence[str]) -> AbsorbedOLS:
    """Refuse options that are not available with absorbed levels."""
    if asked["method"] == "newton":
        raise OptionError("method", "newton", '"gram" or "auto": absorb= is not available for iterations')
    for name in others:
        raise OptionError(name, asked[name], "its default: it is not available beside absorb=")
    return AbsorbedOLS.asking(asked, source=source)


@suggests
def first_difference(
    formula: str, data: Data | Release | None = None, *, time: str, where: str | None = None
) -> Newton:
    """First-difference regression for panel data, which removes time-invariant individual effects.

    Parameters
    ----------
    formula : str
        As in `ols`. Every column is replaced by its change since the person's previous row; there is no intercept.
    data : PrivateData, PublicData or Release, optional
        People with several rows: data with ``id=`` and ``max_rows=``.
    time : str
        Column of numbers or dates that orders a person's rows. Rows without it are omitted, as are first rows; rows
        after a gap are kept.
    where : str, optional
        As in `ols`; the previous row is the last one that meets the condition.

    Returns
    -------
    Newton
        As ``ols(f"{formula} + FirstDifference({time})", data)``, with standard errors clustered by person.

    Raises
    ------
    FormulaError, UnknownColumnError
        If the formula or the order is invalid, or the data have no people with several rows.

    Notes
    -----
    If no row of a person is missing, the estimate is that of ``FirstDifferenceOLS`` in linearmodels, which omits
    changes that span a gap (Wooldridge 2010, *Econometric Analysis of Cross Section and Panel Data*, section 10.6).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from statsmodels.datasets import grunfeld
    >>> schema = dpi.Schema(invest=dpi.Real(0, 2000), value=dpi.Real(0, 8000), year=dpi.Integer(1935, 1954))
    >>> firms = grunfeld.load_pandas().data
    >>> data = dpi.PublicData(firms, schema, rng=np.random.default_rng(1), id="firm", max_rows=20)
    >>> question = dpi.first_difference("invest ~ value", data, time="year")
    >>> list(question.fit(dpi.ZCDP(1e6)).params.index)
    ['value']
    """
    of_type(str, "formula", formula, 'a formula such as "income ~ age"')
    of_type(str, "time", time, "the column that orders a person's rows")
    return Newton.asking(locals(), formula=f"{formula} + FirstDifference({time})", model="ols")


@suggests
def gram(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    clamped_share: float = 0.0,
) -> Gram:
    """Measure the cross-products of columns once, and fit any regression among them.

    Parameters
    ----------
    columns : sequence of str
        Columns, or terms such as ``"I(age**2)"`` or ``"age:married"``.
    data : PrivateData, PublicData or Release, optional
    where : str, optional
        As in `ols`.
    clamped_share : float
        As in `ols`.

    Returns
    -------
    Gram
        After ``.fit(privacy)``, ``dpi.ols(formula, release).infer()`` uses its ``.release`` at no further privacy cost.

    Raises
    ------
    OptionError
        If ``columns`` is not a sequence of names.
    FormulaError, UnknownColumnError, CollinearDesignError
        If a column cannot be bounded from the schema.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), educ=dpi.Integer(0, 20), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> release = dpi.gram(["income", "age", "educ"], data).fit(dpi.ZCDP(0.5)).release  # paid once
    >>> list(dpi.ols("income ~ age + educ", release).infer().params.index)
    ['Intercept', 'age', 'educ']
    >>> list(dpi.ols("educ ~ age", release).infer().params.index)
    ['Intercept', 'age']
    """
    terms = texts_of(columns)
    if isinstance(columns, str) or not terms:
        raise OptionError("columns", columns, 'a list of columns, such as ["income", "age"]')
    return Gram.asking(locals())


@dataclass(frozen=True, eq=False)
class OfProducts(Procedure):
    """A question answered from noisy cross-products."""

    released_as = "gram"

    @abstractmethod
    def design(self, schema: Schema) -> GramDesign:
        """Compile the columns against a schema."""

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, or a formula, that the schema cannot bound."""
        self.design(schema).check()

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products."""
        return self.design(context.schema).stage()


@dataclass(frozen=True, eq=False)
class Gram(OfProducts):
    """Noisy cross-products of columns: one release for every regression among them. See `gram`."""

    procedures = ("gram",)

    terms: tuple[str, ...] = ()
    where: str | None = None
    clamped_share: float = measured(0.0, SHARE)

    def design(self, schema: Schema) -> GramDesign:
        """Compile the columns against a schema."""
        return GramDesign(schema, terms=self.terms, where=self.where, clamped_share=self.clamped_share)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return "gram of " + ", ".join(self.terms)

    @suggests
    def fit(self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False) -> Gram:
        """Measure, and return this procedure bound to its release; see `Gram.release` and `Procedure.measure`."""
        return replace(self, source=self.measure(privacy, save=save, reuse=reuse))

    @property
    def release(self) -> Release:
        """The release to which it is bound, after `fit`.

        Raises
        ------
        OptionError
            If it has not been fitted.
        """
        return self._release(None)

    def infer(self, release: Release | None = None, *, formula: str | None = None, **options: Any) -> PrivateResults:
        """Infer one regression among the columns.

        Parameters
        ----------
        release : Release, optional
        formula : str
            A regression among the measured columns.
        **options
            As in `ols`: ``inference``, ``target``, ``replicates``, ``seed``.

        Raises
        ------
        InferenceError
            If no formula is given.
        """
        if formula is None:
            raise InferenceError(
                'a Gram serves many regressions: name one, as in dpinfer.ols("y ~ x", release).infer(); its columns '
                f"are {', '.join(self.terms)}"
            )
        return OLS(formula=formula, **options).infer(self._release(release))

    @classmethod
    def infer_release(cls, release: Release, **options: Any) -> PrivateResults:
        """Infer one regression from a release of cross-products; see `infer`."""
        return cls.from_release(release).infer(**options)


@dataclass(frozen=True, eq=False)
class OfFormula(OfProducts):
    """A regression, given by a formula, that is computed from cross-products spanning its columns."""

    formula: str = measured("", FORMULA)

    def check_options(self) -> None:
        """Refuse options that differ from those of a release."""
        if not isinstance(self.source, Release):
            return
        stored, asked = self.source.question, self.to_dict()
        for name in ("where", "row_norm", "split"):
            if asked.get(name) is not None and asked[name] != stored.get(name):
                raise OptionError(
                    name, asked[name], "nothing: the release is already measured, and only inference is left"
                )

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return self.formula

    def reads(self, other: Procedure) -> bool:
        """Whether a release holds cross-products; `infer` refuses those that do not span the columns."""
        return other.released_as == self.released_as

    @staticmethod
    def measured_columns(release: Release, compiled: Callable[[], T]) -> T:
        """Compile columns against what was measured.

        Raises
        ------
        MissingFromReleaseError
            If a column was not.
        """
        try:
            return compiled()
        except UnknownColumnError as error:
            columns = ", ".join(release.schema)
            raise MissingFromReleaseError(f"{error.name!r} was not measured; the release is about: {columns}") from None


@dataclass(frozen=True, eq=False)
class OLS(OfFormula, Estimated):
    """A linear regression from noisy cross-products. See `ols`."""

    procedures = ("ols",)

    where: str | None = None
    row_norm: float | None = None
    norm: Literal["l2", "l1"] = "l2"
    split: tuple[float, float, float] | None = None
    clamped_share: float = measured(0.0, SHARE)
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))

    def check_options(self) -> None:
        """Refuse an invalid norm, and options that differ from those of a release."""
        if self.row_norm is None and self.norm not in NORMS:
            raise OptionError("norm", self.norm, NORMS)
        super().check_options()

    def design(self, schema: Schema) -> GramDesign:
        """Compile the columns against a schema."""
        return GramDesign(
            schema,
            formula=self.formula,
            where=self.where,
            row_norm=self.row_norm,
            norm=self.norm,
            clamped_share=self.clamped_share,
        )

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products of the regression."""
        return self.design(context.schema).stage(self.split)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise in each coefficient, before any budget is spent.

        Returns
        -------
        str
            The measurement, its bound, noise and guarantee; for rows spread evenly over their declared bounds, the
            standard error of each coefficient from privacy noise alone, and the factor by which noise inflates standard
            errors of slopes; and a value of ``row_norm`` that would reduce the noise, with its effect, from the bounds
            alone.
        """
        context, sizes = measured.context, sizes_shown(measured.context.nobs)
        question = self.design(context.schema)
        table = expected_noise(question, measured, sizes)
        ratios = zip(expected_ratios(question, measured, sizes), sizes, strict=True)
        shown = ", ".join(f"{ratio - 1:.1%} at n = {size:,}" for ratio, size in ratios)
        heading = (
            "standard error from privacy noise alone, if columns were uniform over their bounds and\n"
            "independent (more if they are correlated or use little of their declared range):"
        )
        told = (
            f"{measured.describe()}\n{heading}\n{table.to_string(float_format=lambda x: f'{x:.4g}')}\n"
            "expected increase in standard errors of slopes due to privacy noise, under the same assumption: about\n"
            f"{shown}"
        )
        advice = self._row_norm(measured, context.privacy)
        return told if advice is None else f"{told}\n{advice}"

    def _row_norm(self, planned: Measurement, privacy: Privacy) -> str | None:
        """Suggest a ``row_norm``, or describe the effect of the given one; None if none is proved."""
        context, question = planned.context, self.design(planned.context.schema)
        if not question.has_plain_response:
            return None
        norm: Literal["l2", "l1"] = "l1" if planned.law.family == "laplace" else "l2"
        suggested = suggested_row_norm(question, norm)
        if suggested is None:
            return None
        bound, norm = (suggested, norm) if self.row_norm is None else (self.row_norm, self.norm)
        other = replace(self, row_norm=bound if self.row_norm is None else None, norm=norm, source=None)
        priced = other.measurement(privacy, schema=context.schema, neighbors=context.neighbors)
        plain, bounded = (planned, priced) if self.row_norm is None else (priced, planned)
        effect = row_norm_effect(question, plain, bounded, bound, norm)
        return effect.describe(given=self.row_norm is not None)

    # Inference

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer this regression from its stored release, or from that of a Gram that spans its columns.

        Raises
        ------
        MissingFromReleaseError
            If the release lacks a column.
        FormulaError
            If the formula cannot be compiled.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, OfProducts)  # `reads` refuses other questions
        held = theirs.design(found.schema)
        compiled = self.measured_columns(found, lambda: two_sided(self.formula, found.schema))
        assert compiled.response is not None
        weights = represent(held.basis, (*compiled.design, compiled.response))
        clamped, flags = clamped_notes(found)
        estimated = linear_inference(
            found,
            self._problem(found, weights),
            tuple(column.name for column in compiled.design),
            method=self.inference,
            weighted=held.row_norm is not None,
            levels=level_columns(compiled.design, compiled.response, held.basis, weights[:-1]),
            replicates=self.replicates,
            seed=self.seed,
            notes=(*flags, *alike_flags(found.schema, self.target)),
        )
        notes = where_notes(held.where)
        if self.target == "population":
            notes.append(ASSUMED)
        if held.row_norm is not None:
            notes.append(
                f"Rows are downweighted where the {held.norm.upper()} norm of their scaled regressors exceeds "
                f"{held.row_norm:g}."
            )
        return PrivateResults(
            estimated,
            found,
            model_name="Private OLS",
            response=compiled.response.name,
            notes=(*notes, *clamped),
            design=FormulaDesign(found.schema, compiled.design),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        refuse_simulated(self.inference)
        problem, names = self._posed(released)
        *regressors, explained = self.design(released.schema).columns
        levels = level_columns(regressors, explained, released.rows.features.basis, problem.design)
        return batch_linear(
            problem, released.values, names, alpha=alpha, method=self.inference, contrasts=contrasts, levels=levels
        )

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,
    ) -> Oracle:
        """Return the width of an interval that knew the population; for studies.

        Parameters
        ----------
        released : Released
            One release, R = 1: of the expected sums, without noise.
        sampling : ndarray (q,)
            True sampling variance in the population of every estimate and then of every contrast, not the model-based
            one.
        alpha, contrasts
            As in `estimate`.

        Returns
        -------
        Oracle
            Half widths from ``sampling`` and the distribution of the noise, and kappa from the expected sums.
        """
        problem, names = self._posed(released)
        return linear_oracle(problem, released.values[0], names, sampling=sampling, alpha=alpha, contrasts=contrasts)

    def _posed(self, released: Released) -> tuple[GramProblem, tuple[str, ...]]:
        """Return the regression on the released sums, and the names of its coefficients."""
        of_type(GramSum, "released", released.rows, "releases of cross-products", hidden=True)
        columns = self.design(released.schema).columns
        weights = represent(released.rows.features.basis, columns)
        return self._problem(released, weights), tuple(column.name for column in columns[:-1])

    def _problem(self, source: Release | Released, weights: Array) -> GramProblem:
        design, response, alike = weights[:-1], weights[-1], source.schema.rows_per_unit
        population = self.target == "population"
        return gram_problem(source.law, source.steps, design, response, population=population, rows_per_unit=alike)


def clamped_notes(release: Release) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return notes and warnings from the noisy count of clipped rows."""
    if release.names[-1] != "clamped rows":
        return (), ()
    count, error = float(release.array[-1]), float(np.sqrt(release.noise_variances[-1]))
    rows = max(float(release.array[0]), 1.0)
    notes = (f"Rows with a value outside its declared bounds: {count:,.0f} (noisy, standard error {error:,.0f}).",)
    share = (count - 2 * error) / rows
    if share <= 0.001:
        return notes, ()
    return notes, (
        f"at least about {share:.1%} of the rows were clamped to their declared bounds: estimates are of the clamped "
        "values and may be biased; standard errors do not account for this clipping bias",
    )
