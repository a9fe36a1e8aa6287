"""Results of linear regressions: from a release of cross-products to `PrivateResults`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import (
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    UnknownColumnError,
)
from dpinfer.inference.linear import linear_inference
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.release import Release, register_inference
from dpinfer.results.people import alike_flags
from dpinfer.results.regression import PrivateResults
from dpinfer.results.sums_question import refuse_damaged
from dpinfer.schema.basis import Basis, build_basis
from dpinfer.schema.expressions import Expression, compile_expression
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula, compile_terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.schema.schema import Schema

__all__ = ["GramQuestion", "infer_linear"]


@dataclass(frozen=True, eq=False)
class GramQuestion:
    """The public question behind a release of cross-products, as Python objects and as JSON.

    Attributes
    ----------
    schema : Schema
    formula : str, optional
        The regression, if one was asked for.
    terms : tuple of str
        The columns, if a Gram was asked for.
    where : str, optional
    row_norm : float, optional
    norm : str
    clamped_share : float
    options : mapping
        Default options of the inference.
    """

    schema: Schema
    formula: str | None = None
    terms: tuple[str, ...] = ()
    where: str | None = None
    row_norm: float | None = None
    norm: str = "l2"
    clamped_share: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def compiled(self) -> CompiledFormula:
        """The columns asked for."""
        if self.formula is None:
            return compile_terms(self.terms, self.schema)
        return _two_sided(self.formula, self.schema)

    @cached_property
    def columns(self) -> tuple[DesignColumn, ...]:
        """Regressors, then the response if there is one."""
        response = self.compiled.response
        return self.compiled.design if response is None else (*self.compiled.design, response)

    @cached_property
    def basis(self) -> Basis:
        """The features measured."""
        return build_basis(self.columns, self.schema)

    @cached_property
    def design(self) -> np.ndarray:
        """Regressors, then response, as combinations of the features (p + 1, d)."""
        return self.basis.represent(self.columns)

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        if self.where is None:
            return None
        if not isinstance(self.where, str):
            raise OptionError("where", self.where, 'a condition such as "age >= 18", or None')
        condition = compile_expression(self.where, self.schema)
        if not condition.boolean:
            raise FormulaError(self.where, "is not a condition", 'write a comparison, such as "age >= 18"')
        return condition

    @cached_property
    def rows(self) -> Features:
        """The row function."""
        clip = None
        if self.row_norm is not None:
            clip = RowClip(self.row_norm, self.norm)  # type: ignore[arg-type]
        return Features(self.basis, self.condition, clip, self.clamped_share > 0)

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        rows = self.rows
        if self.formula is not None:
            rows.basis.represent(self.columns)
        if self.row_norm is not None:
            self.response_is_last()

    def response_is_last(self) -> None:
        """Refuse a bound on regressors, or a split price, where the response is not one numeric feature of its own.

        Raises
        ------
        NotProvedError
        """
        response, last = self.compiled.response, self.basis.blocks[-1]
        if response is None or last.factors or last.expression.text != response.expression.text:
            raise NotProvedError("row_norm= and split= are proved for a response that is a numeric feature of its own")

    @property
    def text(self) -> str:
        """The question in one line."""
        return self.formula if self.formula is not None else "gram of " + ", ".join(self.terms)

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        used = [name for name in self.schema if name in self.rows.columns]
        return {
            "text": self.text,
            "formula": self.formula,
            "terms": list(self.terms),
            "where": self.where,
            "row_norm": self.row_norm,
            "norm": self.norm,
            "clamped_share": self.clamped_share,
            "options": dict(self.options),
            "schema": self.schema.select(used).to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release) -> GramQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question does not fit the sums that the release holds.
        """
        asked = release.question
        try:
            _check_asked(asked)
            question = cls(
                release.schema,
                formula=asked["formula"],
                terms=tuple(asked["terms"]),
                where=asked["where"],
                row_norm=asked["row_norm"],
                norm=asked["norm"],
                clamped_share=asked["clamped_share"],
                options=asked["options"],
            )
        except (KeyError, TypeError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        names = question.basis.names
        upper = np.triu_indices(len(names))
        labels = tuple(f"{names[i]} * {names[j]}" for i, j in zip(*upper, strict=True))
        if release.names[: len(labels)] != labels:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        return question


_OPTION_TYPES = {"inference": str, "target": str, "replicates": int, "seed": int}


def _check_asked(asked: Mapping[str, Any]) -> None:
    """Refuse a stored question whose entries are of wrong types."""
    terms, options = asked["terms"], asked["options"]
    right = {
        "formula": isinstance(asked["formula"], str | None),
        "terms": isinstance(terms, list | tuple) and all(isinstance(term, str) for term in terms),
        "where": isinstance(asked["where"], str | None),
        "row_norm": isinstance(asked["row_norm"], float | int | None),
        "norm": isinstance(asked["norm"], str),
        "clamped_share": isinstance(asked["clamped_share"], float | int),
        "options": isinstance(options, dict)
        and all(type(value) is _OPTION_TYPES.get(name) for name, value in options.items())
        and options.get("seed", 0) >= 0,
    }
    refuse_damaged(right)


@lru_cache(maxsize=128)
def _two_sided(formula: str, schema: Schema) -> CompiledFormula:
    compiled = compile_formula(formula, schema)
    if compiled.response is None:
        raise FormulaError(formula, "has no dependent variable", 'write "y ~ x"')
    if not compiled.design:
        raise FormulaError(formula, "has no regressors", 'write at least "y ~ 1"')
    return compiled


@register_inference("gram")
def infer_linear(
    release: Release,
    *,
    formula: str | None = None,
    inference: str | None = None,
    target: str | None = None,
    replicates: int | None = None,
    seed: int | None = None,
) -> PrivateResults:
    """Infer a linear regression from a release of cross-products.

    Parameters
    ----------
    release : Release
    formula : str, optional
        A regression among the measured columns; by default the one that the release was made for.
    inference, target, replicates, seed : optional
        As in `dpinfer.ols`; by default those of the question.

    Returns
    -------
    PrivateResults

    Raises
    ------
    InferenceError
        If no formula is given and the release was not made for one.
    MissingFromReleaseError
        If the release lacks a column of the formula.
    FormulaError
        If the formula cannot be compiled.
    """
    if release.kind != "gram":
        raise InferenceError(f"a release of kind {release.kind!r} holds no cross-products")
    question = GramQuestion.from_release(release)
    chosen = formula if formula is not None else question.formula
    if chosen is None:
        raise InferenceError(
            'a Gram serves many regressions: say which, as in dpinfer.ols("y ~ x", release).infer(); it holds '
            + ", ".join(question.terms)
        )
    try:
        compiled = _two_sided(chosen, release.schema)
    except UnknownColumnError as error:
        held = ", ".join(release.schema)
        raise MissingFromReleaseError(f"{error.name!r} was not measured; the release is about: {held}") from None
    assert compiled.response is not None
    weights = question.basis.represent((*compiled.design, compiled.response))
    given = {"inference": inference, "target": target, "replicates": replicates, "seed": seed}
    options = {**question.options, **{name: value for name, value in given.items() if value is not None}}
    method = options.pop("inference", "auto")
    clamped, flags = _clamped(release)
    estimated = linear_inference(
        release,
        design=weights[:-1],
        response=weights[-1],
        names=tuple(column.name for column in compiled.design),
        method=method,
        weighted=question.row_norm is not None,
        rows_per_unit=release.schema.rows_per_unit,
        notes=(*flags, *alike_flags(release.schema, options.get("target", "population"))),
        **options,
    )
    notes = [f"Rows: {question.where}."] if question.where else []
    if question.row_norm is not None:
        notes.append(
            f"Rows weigh less where the {question.norm.upper()} norm of their scaled regressors exceeds "
            f"{question.row_norm:g}."
        )
    return PrivateResults(
        estimated,
        release,
        model_name="Private OLS",
        response=compiled.response.name,
        notes=(*notes, *clamped),
    )


def _clamped(release: Release) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return notes and warnings from the noisy count of clamped rows."""
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
        "values and may be biased, which no standard error here counts",
    )
