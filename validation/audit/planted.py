"""Bugs planted in the kernel's primitives, one at a time, with a question that each of them breaks.

A bug lives within a ``with`` block: it replaces a function of the kernel by one that is wrong in one way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel import plan, run, sampling
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Boxes, Features
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.grid import Block, constant_basis

SCHEMA = dpi.Schema(income=dpi.Real(0, 200), age=dpi.Integer(0, 100))


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes
    ----------
    plant : callable
        Returns the context in which the bug lives.
    question : Procedure
    privacy : Privacy
    check : str
        Part of the name of a check that has to fail.
    at : str
        Which primitive is wrong.
    """

    plant: Callable[[], Any]
    question: dpi.Procedure
    privacy: Any
    check: str
    at: str
    neighbors: Any = "add_remove"


@dataclass(frozen=True, eq=False)
class Halves(dpi.Procedure):
    """Rows counted twice, each time at half of the price: a procedure of two stages, the second adaptive."""

    procedures = ("halves",)
    column: str = ""

    def text(self, schema: Any) -> str:  # noqa: ARG002
        return f"two counts of {self.column}"

    def slots(self, context: Any) -> tuple[Slot, ...]:  # noqa: ARG002
        return Slot(Fraction(1, 2), most=2), Slot(Fraction(1, 2), most=4, adaptive=True)

    def stage(self, place: int, context: Any, released: Any) -> Stage:
        ends = (context.schema[self.column].lower, context.schema[self.column].upper)
        cut = 0.5 * sum(ends) if place == 0 else 0.25 * ends[1] * (1.0 + (released[0].array[0] > 0))
        axis = BinsAxis(context.schema, self.column, (ends[0], cut, ends[1]))
        return Stage(Sum(CellSum(Features(constant_basis(context.schema)), (axis,))), settings={"cut": cut})


def block_mean(block: pd.DataFrame) -> list[float]:
    """Return the mean of a block: a user's own function."""
    return [float(block["income"].mean())]


# The bugs


def _replaced(target: Any, name: str, wrong: Callable[..., Any]) -> Any:
    """Replace a function by a wrong one, which is given the right one first."""
    right = getattr(target, name)
    return mock.patch.object(target, name, lambda *given, **options: wrong(right, *given, **options))


def less_noise() -> Any:
    """Draw noise of .8 of its scale."""
    return _replaced(sampling, "exact_noise", lambda right, scales, gaussian: right(0.8 * scales, gaussian))


def forgotten_column() -> Any:
    """Leave the last feature out of the sensitivity."""
    return _replaced(Boxes, "reach", lambda right, boxes, weights, norm: right(boxes, [*weights[:-1], inf], norm))


def no_clamp() -> Any:
    """Leave the clamp of a bare column out: cells beyond its bounds count as they are, up to 16 times the bound."""

    def wrong(block: Block, value: Any, out: Any) -> None:
        scaled = np.nan_to_num((value - block.center) * (2.0**19 / block.half))
        np.rint(np.clip(scaled, -(2.0**23), 2.0**23), out=out)

    return mock.patch.object(Block, "to_grid", wrong)


def exact_count() -> Any:
    """Release the number of rows without noise under either relation."""

    def wrong(rows: CellSum, neighbors: str) -> Any:  # noqa: ARG001
        found = np.zeros(rows.size * rows.width, dtype=bool)
        found[0] = rows.counted
        return found

    return mock.patch.object(CellSum, "public", wrong)


def reused_labels() -> Any:
    """Deal rows by the same labels in every run."""
    kept: dict[tuple[int, int], Any] = {}

    def wrong(right: Any, draws: Any, size: int, labels: int) -> Any:
        return kept.setdefault((size, labels), right(draws, size, labels))

    return _replaced(PrivateDraws, "labels", wrong)


def repeating_fork() -> Any:
    """Draw from a generator whose state a fork copies."""
    rng = np.random.default_rng()

    def wrong(scales: np.ndarray, gaussian: bool) -> list[int]:
        drawn = rng.normal(0, scales) if gaussian else rng.laplace(0, scales)
        return [int(value) for value in np.rint(drawn)]

    return mock.patch.object(sampling, "exact_noise", wrong)


@contextmanager
def row_warning() -> Iterator[None]:
    """Warn of cells beyond the bounds, where nobody quiets it."""

    def wrong(right: Any, rows: Any, source: Any, **options: Any) -> Any:
        found = right(rows, source, **options)
        cells = source.read(["age"], 0, source.rows)["age"]
        if any(isinstance(cell, int | float) and cell > 200 for cell in np.asarray(cells, dtype=object).tolist()):
            warnings.warn("a value is beyond its bounds", stacklevel=2)
        return found

    with ExitStack() as stack:
        stack.enter_context(_replaced(run, "exact_sums", wrong))
        stack.enter_context(_replaced(run, "no_warnings", lambda right, private=True: right(False)))  # noqa: ARG005
        yield


def fractional_bits() -> Any:
    """Release floats, in which the fraction of an exact sum is left beside whole noise."""

    def wrong(right: Any, priced: Any, exact: Any, draws: Any) -> list[Any]:
        return [value + total * 1e-9 for value, total in zip(right(priced, exact, draws), exact, strict=True)]

    return _replaced(run, "noisy", wrong)


@contextmanager
def share_twice() -> Iterator[None]:
    """Give every stage the shares of two, and charge for the first alone."""

    def wrong(right: Any, privacy: Any, slots: Any) -> list[Any]:
        given = right(privacy, slots)
        return [one + other for one, other in zip(given, [*given[1:], given[0]], strict=True)] if given[1:] else given

    with ExitStack() as stack:
        stack.enter_context(_replaced(plan, "amounts", wrong))
        stack.enter_context(_replaced(plan, "total_cost", lambda right, privacy, costs: right(privacy, costs[:1])))
        yield


def coarse_noise() -> Any:
    """Draw noise on multiples of 8 steps, so that the remainder of the exact sum shows."""
    return _replaced(sampling, "exact_noise", lambda right, *given: [value // 8 * 8 for value in right(*given)])


_MEAN = dpi.mean("income")
_BLOCKS = dpi.sample_aggregate(
    ["income", "age"], model=block_mean, names=["mean"], blocks=30, bounds={"mean": (0, 200)}
)

BUGS = {
    "noise times .8": Bug(less_noise, _MEAN, dpi.ZCDP(0.5), "draws:", "sampling.exact_noise"),
    "sensitivity of one column forgotten": Bug(
        forgotten_column, dpi.mean(["income", "age"]), dpi.ZCDP(0.5), "change over bound", "Boxes.reach"
    ),
    "a clamp left out": Bug(no_clamp, dpi.gram(["income", "age"]), dpi.ZCDP(0.5), "change over bound", "Block.to_grid"),
    "a count left exact under add_remove": Bug(
        exact_count, _MEAN, dpi.ZCDP(0.5), "change over bound", "CellSum.public"
    ),
    "labels reused": Bug(reused_labels, _BLOCKS, dpi.ZCDP(0.5), "secret labels", "PrivateDraws.labels"),
    "a fork that repeats noise": Bug(repeating_fork, _MEAN, dpi.PureDP(1.0), "forked process", "sampling.exact_noise"),
    "a row-dependent warning": Bug(row_warning, dpi.mean("age"), dpi.ZCDP(0.5), "warnings", "run.no_warnings"),
    "the fractional bits of a float released": Bug(
        fractional_bits, _MEAN, dpi.ZCDP(0.5), "released numbers are whole", "run.noisy"
    ),
    "a share counted twice": Bug(
        share_twice, Halves(column="income"), dpi.ZCDP(0.5), "all stages over the price", "price.amounts"
    ),
    "noise on a coarser grid than the sums": Bug(
        coarse_noise, _MEAN, dpi.ZCDP(0.5), "remainders", "sampling.exact_noise"
    ),
}
"""By name, in the order in which they are told."""
