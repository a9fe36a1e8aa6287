"""The scores of candidates: what each row adds to the score of every one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Ints
from dpinfer.schema.columns import clamped_values

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema


_LARGEST = 2.0**19
"""What a row adds is at most this many steps: sums over a chunk of rows are then exact in float64."""

_HUGE = 1e130
"""Scores of up to this size, and not below its inverse, have steps that a release can hold."""

MOST_CANDIDATES = 2**16


@dataclass(frozen=True, eq=False)
class ScoreSum:
    """Maps each row to whole numbers, one for each candidate, that are summed into scores.

    Rows at which ``where`` does not hold add nothing.
    """

    schema: Schema
    scores: tuple[Expression, ...]
    where: Expression | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        names = {name for score in self.scores for name in score.columns}
        return tuple(sorted(names | set(self.where.columns if self.where else ())))

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row adds nothing because it is dropped."""
        whole = self.where is None and self.schema.people is None
        return whole and not any(self.schema[name].may_drop for name in self.columns)

    @property
    def _largest(self) -> float:
        return max(max(abs(score.lower), abs(score.upper)) for score in self.scores)

    @cached_property
    def step(self) -> float:
        """Size of one step of the scores: 1 for votes, otherwise a power of two."""
        if all(score.boolean for score in self.scores):
            return 1.0
        return 2.0 ** math.frexp(self._largest / _LARGEST)[1] if self._largest > 0 else 1.0

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """Least and largest number that a row can add to each score (d,), in steps."""
        lower, upper = np.rint(np.array([(score.lower, score.upper) for score in self.scores]).T / self.step)
        return lower, upper

    def spread(self, neighbors: Neighbors) -> int:
        """Bound on the range (largest less smallest) of the change of all scores between neighbours, in steps.

        A row's numbers lie between the least lower and the largest upper limit, so that adding it changes scores by
        amounts that differ by no more than these. Replacing it by another changes each score by at most the length of
        its interval, up or down. The range is a seminorm: a unit of several rows moves it by at most their sum.
        """
        lower, upper = self.limits
        bounds = [float(upper.max() - lower.min())]
        if neighbors == "replace_one":
            bounds = [2 * float((upper - lower).max()), *([] if self.keeps_every_row else bounds)]
        return int(max(bounds)) * self.schema.rows_per_unit

    def moved(self, neighbors: Neighbors) -> int:
        """Bound on the change of any one score between neighbours, in steps.

        A row that comes or goes changes a score by a number between its limits, one that is replaced by at most their
        distance. Where a row may be dropped, or a person may have fewer rows, replacing does what removing does, too.
        """
        lower, upper = self.limits
        whole, apart = float(np.maximum(np.abs(lower), np.abs(upper)).max()), float((upper - lower).max())
        bound = whole if neighbors == "add_remove" else apart if self.keeps_every_row else max(whole, apart)
        return int(bound) * self.schema.rows_per_unit

    def monotone(self, neighbors: Neighbors) -> bool:
        """Whether neighbours move all scores in one direction: a unit comes or goes, and all numbers have one sign."""
        lower, upper = self.limits
        return neighbors == "add_remove" and bool((lower >= 0).all() or (upper <= 0).all())

    def check(self, least: int = 1) -> None:
        """Refuse scores that do not depend on rows, and fewer or more candidates than can be held."""
        if not least <= len(self.scores) <= MOST_CANDIDATES:
            raise OptionError("candidates", f"{len(self.scores):,}", f"{least} to {MOST_CANDIDATES:,} candidates")
        largest = self._largest
        if largest > 0 and not 1 / _HUGE <= largest <= _HUGE:
            right = f"values from {1 / _HUGE:g} to {_HUGE:g}: rescale it"
            raise OptionError("score", f"values up to {largest:g}", right)
        lower, upper = self.limits
        if not ((lower <= upper) & (np.abs(lower) <= _LARGEST) & (np.abs(upper) <= _LARGEST)).all():
            raise OptionError("score", f"values up to {largest:g}", "bounds in order, and of votes 0 and 1")
        if not self.columns or min(self.spread("add_remove"), self.spread("replace_one")) == 0:
            raise OptionError("score", self.scores[0].text, "a score that depends on columns")

    @property
    def entries(self) -> int:
        """Number d of scores."""
        return len(self.scores)

    light = True
    batch_rows = CHUNK_ROWS
    """Batches are mapped in one thread."""

    def add(self, batch: Batch) -> Ints:
        """Map a batch and sum it (1, d): each row's numbers are within `limits`; rows that are dropped add nothing."""
        lower, upper = self.limits
        total = np.zeros(len(self.scores))
        with np.errstate(all="ignore"):
            values, keep = clamped_values(self.schema, self.columns, batch.cells, batch.size)
            if self.where is not None:
                keep &= self.where.evaluate(values) > 0.5
            for place, score in enumerate(self.scores):
                added = np.fmin(np.fmax(np.rint(score.evaluate(values) / self.step), lower[place]), upper[place])
                total[place] = np.where(keep, added, 0.0).sum()
        return total[None].astype(np.int64)

    def finish(self, totals: list[int]) -> list[int]:
        """Return the scores as they are."""
        return totals
