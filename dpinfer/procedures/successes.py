"""Questions that are answered exactly, from one noisy count of rows among a public number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpinfer.errors import NotProvedError, ReleaseFormatError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Noise, Stage, Sum
from dpinfer.procedures.joint_table import MeasuredCounts
from dpinfer.procedures.options import Allowed, measured
from dpinfer.procedures.procedure import Procedure
from dpinfer.release import Release
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.testing.binomial import NOISES
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_condition, condition_axis

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["OfSuccesses"]

_CONDITION = Allowed(lambda given: isinstance(given, str), 'a Boolean column, or a condition such as "age >= 18"')


@dataclass(frozen=True, eq=False)
class OfSuccesses(Procedure):
    """A question about how many rows meet a condition, where each row is a success or not."""

    released_as = "binomial"

    asked_by: ClassVar[str]
    """What asks it, for messages."""

    instead: ClassVar[str]
    """How another inference is asked for, for messages: "{}" stands for its option."""

    instead_of_dropping: ClassVar[str]
    """What serves where rows may drop out, for messages."""

    column: str = measured("", _CONDITION)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse data whose number of rows is not public, and a column whose cells may drop their row."""
        score, simulated = (self.instead.format(f'inference="{method}"') for method in ("score", "simulated"))
        if schema.people is not None:
            raise NotProvedError(
                f"{self.asked_by} needs a public number of rows; with id= it is confidential under either relation: "
                f"use {score}"
            )
        if neighbors != "replace_one":
            raise NotProvedError(
                f'{self.asked_by} needs a public number of rows, that is neighbors="replace_one"; under add_remove use '
                f'{simulated} or "score"'
            )
        for name in compile_condition(self.column, schema).columns:
            if schema[name].may_drop:
                raise NotProvedError(
                    f"{self.asked_by} needs every row to count: declare missing= and impossible= constants for "
                    f"{name!r} (such as False), or use {self.instead_of_dropping}"
                )

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for one count, with noise whose law allows exact inference."""
        self.check(context.schema, context.neighbors)
        rows = CellSum(Features(basis_of([], context.schema), compile_condition(self.column, context.schema)))
        return Stage(Sum(rows), Noise(tulap=self.release_kind(context) == "binomial"))

    @property
    def holds_tulap(self) -> bool:
        """Whether its release holds a count with Tulap noise."""
        return isinstance(self.source, Release) and self.source.kind == "binomial"

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: any count of the same successes with Tulap noise."""
        return isinstance(other, OfSuccesses) and other.holds_tulap and other.column == self.column

    def counted(self) -> MeasuredCounts | None:
        """Return the count that its release holds."""
        if not isinstance(self.source, Release):
            return None
        axis = condition_axis(self.column, self.source.schema)
        return MeasuredCounts((axis,), np.array([[0.0, 1.0]]), (self.column,), None, every_row=True)

    def check_release(self, release: Release) -> None:
        """Refuse a release that holds no single count with noise that suits, among a public number of rows."""
        super().check_release(release)
        check_count(release)


def check_count(release: Release) -> None:
    """Refuse a damaged release of a count.

    Raises
    ------
    ReleaseFormatError
    """
    family = "tulap" if release.kind == "binomial" else "gaussian"
    if release.nobs is None:
        raise ReleaseFormatError("the release is damaged: the number of rows must be public")
    if release.law.family != family or len(release.values) != 1:
        raise ReleaseFormatError(f"the release is damaged: it holds no single count with {NOISES[family]} noise")
    if family == "tulap" and release.steps[0] * TULAP_GRID != 1:
        raise ReleaseFormatError("the release is damaged: its step is not that of Tulap noise")
