"""Questions of linear regression: noisy cross-products, and one regression that is read from them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer.errors import InferenceError, MissingFromReleaseError, OptionError, UnknownColumnError, type_of
from dpinfer.inference.batch import BatchEstimates, Oracle, batch_linear, linear_oracle
from dpinfer.inference.linear import METHODS, linear_inference
from dpinfer.kernel.rows.features import NORMS
from dpinfer.kernel.rows.products import GramSum
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.estimated import Estimated
from dpinfer.procedures.expected import expected_noise, sizes_shown
from dpinfer.procedures.gram_design import GramDesign, two_sided
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.level_columns import level_columns
from dpinfer.procedures.options import Allowed, inferred, measured, one_of, refuse_simulated
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.row_norms import row_norm_effect, suggested_row_norm
from dpinfer.release import Release, StageRelease
from dpinfer.results.base import PrivateResults
from dpinfer.results.people import alike_flags
from dpinfer.schema.basis import represent
from dpinfer.schema.points import FormulaDesign

if TYPE_CHECKING:
    import os

    from dpinfer.inference.released import Released
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Stage
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.options import Contrasts
    from dpinfer.schema.schema import Schema

Array = NDArray[np.float64]

__all__ = ["OLS", "Gram"]


_SHARE = Allowed(
    lambda given: isinstance(given, int | float) and 0 <= given < 0.5, "a share of the price from 0 to below 0.5"
)
_ASSUMED = (
    "Read from cross-products, standard errors assume a linear model with errors of equal spread (one error variance); "
    "a robust covariance needs the rows."
)
_FORMULA = Allowed(lambda given: isinstance(given, str), 'a formula such as "income ~ age"')


@dataclass(frozen=True, eq=False)
class OfProducts(Procedure):
    """A question that is answered from noisy cross-products."""

    released_as = "gram"

    @abstractmethod
    def design(self, schema: Schema) -> GramDesign:
        """Return the columns, compiled against a schema."""

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, or a formula, that the schema cannot bound."""
        self.design(schema).check()

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products."""
        return self.design(context.schema).stage()


@dataclass(frozen=True, eq=False)
class Gram(OfProducts):
    """The noisy cross-products of some columns: one price, every regression among them. See `gram`."""

    procedures = ("gram",)

    terms: tuple[str, ...] = ()
    where: str | None = None
    clamped_share: float = measured(0.0, _SHARE)

    def design(self, schema: Schema) -> GramDesign:
        """Return the columns, compiled against a schema."""
        return GramDesign(schema, terms=self.terms, where=self.where, clamped_share=self.clamped_share)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return "gram of " + ", ".join(self.terms)

    @suggests
    def fit(self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False) -> Gram:
        """Measure, and return this procedure bound to its release; see `Gram.release` and `Procedure.measure`."""
        return replace(self, source=self.measure(privacy, save=save, reuse=reuse))

    @property
    def release(self) -> Release:
        """The release that it is bound to, after `fit`.

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
            As `ols` takes them: ``inference``, ``target``, ``replicates``, ``seed``.

        Raises
        ------
        InferenceError
            If no formula is given.
        """
        if formula is None:
            raise InferenceError(
                'a Gram serves many regressions: say which, as in dpinfer.ols("y ~ x", release).infer(); it holds '
                + ", ".join(self.terms)
            )
        return OLS(formula=formula, **options).infer(self._release(release))

    @classmethod
    def infer_release(cls, release: Release, **options: Any) -> PrivateResults:
        """Infer one regression from a release of cross-products; see `infer`."""
        return cls.from_release(release).infer(**options)


@dataclass(frozen=True, eq=False)
class OLS(OfProducts, Estimated):
    """Private ordinary least squares. See `ols`."""

    procedures = ("ols",)

    formula: str = measured("", _FORMULA)
    where: str | None = None
    row_norm: float | None = None
    norm: Literal["l2", "l1"] = "l2"
    split: tuple[float, float, float] | None = None
    clamped_share: float = measured(0.0, _SHARE)
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))

    def check_options(self) -> None:
        """Refuse an invalid norm, and options that differ from what a release has measured."""
        if self.row_norm is None and self.norm not in NORMS:
            raise OptionError("norm", self.norm, NORMS)
        if not isinstance(self.source, Release):
            return
        stored, asked = self.source.question, self.to_dict()
        for name in ("where", "row_norm", "split"):
            if asked[name] is not None and asked[name] != stored.get(name):
                raise OptionError(
                    name, asked[name], "nothing: the release is already measured, and only inference is left"
                )

    def design(self, schema: Schema) -> GramDesign:
        """Return the columns, compiled against a schema."""
        return GramDesign(
            schema,
            formula=self.formula,
            where=self.where,
            row_norm=self.row_norm,
            norm=self.norm,
            clamped_share=self.clamped_share,
        )

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return self.formula

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products that the regression is read from."""
        return self.design(context.schema).stage(self.split)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise that each coefficient would carry, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; the standard error that privacy noise alone would give
            each coefficient if the rows were spread evenly over their declared bounds; and a value of ``row_norm``
            that would save noise, with what it does, from the bounds alone.
        """
        context = measured.context
        table = expected_noise(self.design(context.schema), measured, sizes_shown(context.nobs))
        heading = (
            "standard error from privacy noise alone, if every column were spread evenly over its bounds and\n"
            "independent of the others (columns that are related, or use little of their bounds, carry more):"
        )
        told = f"{measured.describe()}\n{heading}\n{table.to_string(float_format=lambda x: f'{x:.4g}')}"
        advice = self._row_norm(measured, context.privacy)
        return told if advice is None else f"{told}\n{advice}"

    def _row_norm(self, planned: Measurement, privacy: Privacy) -> str | None:
        """Suggest a ``row_norm``, or say what the one asked for does; None where none is proved."""
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

    def reads(self, other: Procedure) -> bool:
        """Whether a release holds cross-products; `infer` refuses those that do not span the columns."""
        return other.released_as == self.released_as

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer this regression from a release of its own, or of a Gram that spans its columns.

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
        try:
            compiled = two_sided(self.formula, found.schema)
        except UnknownColumnError as error:
            columns = ", ".join(found.schema)
            raise MissingFromReleaseError(f"{error.name!r} was not measured; the release is about: {columns}") from None
        assert compiled.response is not None
        weights = represent(held.basis, (*compiled.design, compiled.response))
        clamped, flags = _clamped(found)
        estimated = linear_inference(
            found,
            design=weights[:-1],
            response=weights[-1],
            names=tuple(column.name for column in compiled.design),
            method=self.inference,
            weighted=held.row_norm is not None,
            rows_per_unit=found.schema.rows_per_unit,
            notes=(*flags, *alike_flags(found.schema, self.target)),
            target=self.target,
            replicates=self.replicates,
            seed=self.seed,
            levels=level_columns(compiled.design, compiled.response, held.basis, weights[:-1]),
        )
        notes = where_notes(held.where)
        if self.target == "population":
            notes.append(_ASSUMED)
        if held.row_norm is not None:
            notes.append(
                f"Rows weigh less where the {held.norm.upper()} norm of their scaled regressors exceeds "
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
        design, response, names = self._columns(released)
        *regressors, explained = self.design(released.schema).columns
        assert isinstance(released.rows, GramSum)  # `_columns` refuses others
        return batch_linear(
            released.values,
            law=released.law,
            steps=released.steps.tolist(),
            design=design,
            response=response,
            names=names,
            alpha=alpha,
            method=self.inference,
            target=self.target,
            contrasts=contrasts,
            rows_per_unit=released.schema.rows_per_unit,
            levels=level_columns(regressors, explained, released.rows.features.basis, design),
        )

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies.

        Parameters
        ----------
        released : Released
            One release, R = 1: of the expected sums, without noise.
        sampling : ndarray (q,)
            True sampling variance, in the population drawn from, of every estimate and then of every contrast: never
            what the model says of it.
        alpha, contrasts
            As in `estimate`.

        Returns
        -------
        Oracle
            Half widths from ``sampling`` and the law of the noise, and kappa from the expected sums.
        """
        design, response, names = self._columns(released)
        return linear_oracle(
            released.values[0],
            sampling=sampling,
            law=released.law,
            steps=released.steps.tolist(),
            design=design,
            response=response,
            alpha=alpha,
            contrasts=contrasts,
            names=names,
        )

    def _columns(self, released: Released) -> tuple[Array, Array, tuple[str, ...]]:
        if not isinstance(released.rows, GramSum):
            raise OptionError("released", type_of(released.rows), "releases of cross-products")
        columns = self.design(released.schema).columns
        weights = represent(released.rows.features.basis, columns)
        return weights[:-1], weights[-1], tuple(column.name for column in columns[:-1])


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
