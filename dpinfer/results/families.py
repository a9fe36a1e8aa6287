"""Exponential families: the public question, and results from a release of clamped sufficient statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, InferenceError, ReleaseFormatError
from dpinfer.inference.expfam import ClampedProblem, clamped_problem
from dpinfer.inference.expfam_inference import FamilyInference, family_inference
from dpinfer.inference.families import ExponentialFamily, family_from_dict
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.release import Release, register_inference
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.people import alike_flags
from dpinfer.procedures.sum_plan import right_options
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from dpinfer.schema.schema import Schema

__all__ = ["FamilyQuestion", "FamilyResults", "infer_family"]


@dataclass(frozen=True, eq=False)
class FamilyQuestion:
    """The sums of a family's sufficient statistics of one clamped column.

    Attributes
    ----------
    schema : Schema
    column : str
    family : ExponentialFamily
    where : str, optional
    options : mapping
        Default options of the inference.
    """

    schema: Schema
    column: str
    family: ExponentialFamily
    where: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def problem(self) -> ClampedProblem:
        """The family on the column's bounds; refuses what does not match or cannot be bounded."""
        return clamped_problem(self.family, self.column, self.schema)

    @cached_property
    def rows(self) -> CellSum:
        """The row function."""
        texts = [expression.text for expression in self.problem.expressions]
        condition = None if self.where is None else compile_condition(self.where, self.schema)
        return CellSum(Features(basis_of(texts, self.schema), condition))

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        used = [name for name in self.schema if name in self.rows.columns]
        return {
            "text": f"{self.family.name} family of {self.column}" + (f", where {self.where}" if self.where else ""),
            "column": self.column,
            "family": self.family.to_dict(),
            "where": self.where,
            "options": dict(self.options),
            "schema": self.schema.select(used).to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release, family: ExponentialFamily | None = None) -> FamilyQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question does not fit the sums that the release holds.
        InferenceError
            If the release needs the author's own family, which a file cannot hold.
        """
        asked = release.question
        try:
            stored, where, options = asked["family"], asked["where"], asked["options"]
            if not (isinstance(stored, Mapping) and right_options(options) and isinstance(where, str | None)):
                raise ReleaseFormatError("the question of the release is damaged: an entry is of a wrong type")
            found = cls(release.schema, str(asked["column"]), family_from_dict(stored, family), where, options)
            names = found.rows.names
        except InferenceError:
            raise
        except (KeyError, TypeError, ValueError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        if release.names != names:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        return found


class FamilyResults(DescriptionResults):
    """Parameters of an exponential family, in usual and natural form."""

    def natural_params(self) -> pd.DataFrame:
        """Return the natural parameters with standard errors by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise), a row per natural parameter.

        Raises
        ------
        InferenceError
            If the family does not say what they are.
        """
        inference = self._inference
        assert isinstance(inference, FamilyInference)
        names, values, covariance = inference.natural()
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return pd.DataFrame({"estimate": values, "std err": error}, index=list(names))


@register_inference("expfam")
def infer_family(
    release: Release,
    *,
    family: ExponentialFamily | None = None,
    inference: str | None = None,
    target: str | None = None,
    replicates: int | None = None,
    seed: int | None = None,
) -> FamilyResults:
    """Infer the parameters of an exponential family.

    Parameters
    ----------
    release : Release
    family : Family, optional
        Needed for a family of the author's own, whose log-density no file can hold.
    inference : {"auto", "score", "wald", "simulated"}, optional
    target : {"population", "data"}, optional
    replicates, seed : int, optional
        For ``inference="simulated"``.

    Returns
    -------
    FamilyResults

    Raises
    ------
    InferenceError
        If the family is needed and not given, or the release holds something else.
    OptionError
        If an option has no such value.
    """
    if release.kind != "expfam":
        raise InferenceError(f"a release of kind {release.kind!r} holds no sums of an exponential family")
    question = FamilyQuestion.from_release(release, family)
    given = {"inference": inference, "target": target, "replicates": replicates, "seed": seed}
    options = {**question.options, **{name: value for name, value in given.items() if value is not None}}
    found = family_inference(
        release,
        problem=question.problem,
        method=options.get("inference", "auto"),
        target=options.get("target", "population"),
        replicates=int(options.get("replicates", 999)),
        seed=int(options.get("seed", 0)),
        rows_per_unit=question.schema.rows_per_unit,
        notes=alike_flags(question.schema, options.get("target", "population")),
    )
    problem = question.problem
    notes = [f"Rows: {question.where}."] if question.where else []
    notes.append(
        f"The statistics are of values clamped to [{problem.lower:.6g}, {problem.upper:.6g}], and their expectation is "
        "that of clamped values: the parameters are of the family itself."
    )
    return FamilyResults(
        found,
        release,
        model_name=f"Private {question.family.name} family",
        response=question.column,
        notes=notes,
        quantity="estimate",
    )
