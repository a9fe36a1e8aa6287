"""Questions of linear regression: noisy cross-products, and one regression that is read from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer.errors import InferenceError, MissingFromReleaseError, NotProvedError, OptionError, UnknownColumnError
from dpinfer.inference.batch import BatchEstimates, Oracle, batch_linear, linear_oracle
from dpinfer.inference.linear import METHODS, TARGETS, linear_inference
from dpinfer.kernel.rows.features import NORMS
from dpinfer.kernel.rows.products import GramSum
from dpinfer.procedures.expected import expected_noise
from dpinfer.procedures.gram_design import GramDesign, two_sided
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure, inferred
from dpinfer.release import Release, StageRelease
from dpinfer.results.base import PrivateResults
from dpinfer.results.people import alike_flags
from dpinfer.schema.basis import represent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.released import Released
    from dpinfer.kernel.stage import Context, Stage
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.schema.schema import Schema

Array = NDArray[np.float64]

__all__ = ["OLS", "Gram"]


@dataclass(frozen=True, eq=False)
class Gram(Procedure):
    """The noisy cross-products of some columns: one price, every regression among them. See `gram`."""

    procedures = ("gram",)

    terms: tuple[str, ...] = ()
    where: str | None = None
    clamped_share: float = 0.0

    def __post_init__(self) -> None:
        _check_share(self.clamped_share)
        super().__post_init__()

    def design(self, schema: Schema) -> GramDesign:
        """Return the columns, compiled against a schema."""
        return GramDesign(schema, terms=self.terms, where=self.where, clamped_share=self.clamped_share)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return "gram of " + ", ".join(self.terms)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that the schema cannot bound."""
        self.design(schema).check()

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products."""
        return self.design(context.schema).stage()

    @suggests
    def fit(self, privacy: Privacy) -> Gram:
        """Measure, and return this procedure bound to its release; see `Gram.release`."""
        return replace(self, source=self.measure(privacy))

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
class OLS(Procedure):
    """Private ordinary least squares. See `ols`."""

    procedures = ("ols",)

    formula: str = ""
    where: str | None = None
    row_norm: float | None = None
    norm: Literal["l2", "l1"] = "l2"
    split: tuple[float, float, float] | None = None
    clamped_share: float = 0.0
    inference: str = inferred("auto")
    target: str = inferred("population")
    replicates: int = inferred(999)
    seed: int = inferred(0)

    def __post_init__(self) -> None:
        if not isinstance(self.formula, str):
            raise OptionError("formula", self.formula, 'a formula such as "income ~ age"')
        if self.inference not in METHODS:
            raise OptionError("inference", self.inference, METHODS)
        if self.target not in TARGETS:
            raise OptionError("target", self.target, TARGETS)
        if not (isinstance(self.replicates, int) and self.replicates >= 99):
            raise OptionError("replicates", self.replicates, "a whole number of at least 99")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise OptionError(
                "seed", self.seed, "a whole number, not negative: it is public and draws no privacy noise"
            )
        _check_share(self.clamped_share)
        if self.row_norm is None and self.norm not in NORMS:
            raise OptionError("norm", self.norm, NORMS)
        super().__post_init__()
        if isinstance(self.source, Release):
            self._refuse_measurement_options()

    def _refuse_measurement_options(self) -> None:
        assert isinstance(self.source, Release)
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

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound."""
        self.design(schema).check()

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the cross-products that the regression is read from."""
        return self.design(context.schema).stage(self.split)

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "gram": any regression among the columns reads it."""
        return "gram"

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and the noise that each coefficient would carry, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the standard error that privacy noise alone
            would give each coefficient if the rows were spread evenly over their declared bounds.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        nobs = measured.context.nobs
        sizes = (nobs,) if nobs is not None else (1_000, 10_000, 100_000)
        table = expected_noise(self.design(measured.context.schema), measured, sizes)
        heading = (
            "standard error from privacy noise alone, if every column were spread evenly over its bounds and\n"
            "independent of the others (columns that are related, or use little of their bounds, carry more):"
        )
        return f"{measured.describe()}\n{heading}\n{table.to_string(float_format=lambda x: f'{x:.4g}')}"

    # Inference

    def reads(self, other: Procedure) -> bool:
        """Any cross-products serve, if they span the columns."""
        return isinstance(other, OLS | Gram)

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
        measured = theirs.design(found.schema)  # type: ignore[attr-defined]
        try:
            compiled = two_sided(self.formula, found.schema)
        except UnknownColumnError as error:
            held = ", ".join(found.schema)
            raise MissingFromReleaseError(f"{error.name!r} was not measured; the release is about: {held}") from None
        assert compiled.response is not None
        weights = represent(measured.basis, (*compiled.design, compiled.response))
        clamped, flags = _clamped(found)
        estimated = linear_inference(
            found,
            design=weights[:-1],
            response=weights[-1],
            names=tuple(column.name for column in compiled.design),
            method=self.inference,
            weighted=measured.row_norm is not None,
            rows_per_unit=found.schema.rows_per_unit,
            notes=(*flags, *alike_flags(found.schema, self.target)),
            target=self.target,
            replicates=self.replicates,
            seed=self.seed,
        )
        notes = [f"Rows: {measured.where}."] if measured.where else []
        if measured.row_norm is not None:
            notes.append(
                f"Rows weigh less where the {measured.norm.upper()} norm of their scaled regressors exceeds "
                f"{measured.row_norm:g}."
            )
        return PrivateResults(
            estimated,
            found,
            model_name="Private OLS",
            response=compiled.response.name,
            notes=(*notes, *clamped),
        )

    def estimate(
        self, released: Released, *, alpha: float = 0.05, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
        design, response, names = self._columns(released)
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
        )

    def oracle(
        self, released: Released, *, alpha: float = 0.05, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `Procedure.oracle`."""
        design, response, names = self._columns(released)
        return linear_oracle(
            released.values[0],
            law=released.law,
            steps=released.steps.tolist(),
            design=design,
            response=response,
            alpha=alpha,
            target=self.target,
            contrasts=contrasts,
            names=names,
            rows_per_unit=released.schema.rows_per_unit,
        )

    def _columns(self, released: Released) -> tuple[Array, Array, tuple[str, ...]]:
        if not isinstance(released.rows, GramSum):
            raise OptionError("released", type(released.rows).__name__, "releases of cross-products")
        columns = self.design(released.schema).columns
        weights = represent(released.rows.features.basis, columns)
        return weights[:-1], weights[-1], tuple(column.name for column in columns[:-1])


def _check_share(share: float) -> None:
    if not (isinstance(share, int | float) and 0 <= share < 0.5):
        raise OptionError("clamped_share", share, "a share of the price from 0 to below 0.5")


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
