"""One exact proportion: its public question, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpinfer.errors import DPInferError, InferenceError, NotProvedError, ReleaseFormatError
from dpinfer.inference.exact_proportion import ExactProportion
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.release import Release, register_inference
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["ExactQuestion", "infer_exact"]


@dataclass(frozen=True, eq=False)
class ExactQuestion:
    """How many rows meet a condition, each row being a success or not.

    Attributes
    ----------
    schema : Schema
    column : str
        A Boolean column, or a condition.
    """

    schema: Schema
    column: str

    @cached_property
    def condition(self) -> Expression:
        """The compiled condition."""
        return compile_condition(self.column, self.schema)

    @cached_property
    def rows(self) -> CellSum:
        """The row function: rows that meet the condition."""
        return CellSum(Features(basis_of([], self.schema), self.condition))

    def check(self) -> None:
        """Refuse a column whose cells may drop their row: n would then not be the public number of rows.

        Raises
        ------
        NotProvedError
        """
        for name in self.condition.columns:
            if self.schema[name].may_drop:
                raise NotProvedError(
                    f'inference="exact" needs every row to count: declare missing= and impossible= constants for '
                    f'{name!r} (such as False), or use inference="score"'
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        return {
            "text": f"proportion of {self.column}, exactly",
            "column": self.column,
            "schema": self.schema.select(self.condition.columns).to_dict(),
        }


@register_inference("binomial")
def infer_exact(release: Release, *, inference: str | None = None, target: str | None = None) -> DescriptionResults:
    """Infer a proportion from a count with Tulap noise.

    Parameters
    ----------
    release : Release
    inference : {"exact", "wald"}, optional
    target : {"population"}, optional

    Returns
    -------
    DescriptionResults

    Raises
    ------
    InferenceError
        If the release holds something else.
    ReleaseFormatError
        If the release is damaged.
    NotProvedError
        For the target "data".
    OptionError
        If there is no such method.
    """
    if target not in (None, "population"):
        raise NotProvedError('an exact interval is about a population: there is none for target="data"')
    if release.kind != "binomial":
        raise InferenceError(f"a release of kind {release.kind!r} holds no count for an exact interval")
    column = release.question.get("column")
    if release.law.family != "tulap" or len(release.values) != 1 or not isinstance(column, str):
        raise ReleaseFormatError("the release is damaged: it holds no single count with Tulap noise")
    if release.nobs is None:
        raise ReleaseFormatError("the release is damaged: the number of rows must be public")
    try:
        ExactQuestion(release.schema, column).check()
    except DPInferError as error:
        raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
    found = ExactProportion(
        count=float(release.array[0]),
        size=release.nobs,
        noise_scale=release.law.scales[0] / TULAP_GRID,
        names=(column,),
    )
    return DescriptionResults(
        found.with_method(inference or "exact"),
        release,
        model_name="Private proportion",
        response=column,
        quantity="proportion",
        sizes=pd.Series([float(release.nobs)]),
    )
