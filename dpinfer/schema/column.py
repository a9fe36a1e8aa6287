"""What every column has: policies, the reading of cells, and the checks of declarations."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.errors import SchemaError, shown
from dpinfer.schema.cells import IMPOSSIBLE, MISSING, Coded, complex_to_numbers, distinct_texts, read_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["DROP", "Column", "finite_number", "plain_scalar", "refused"]

DROP = "drop"


def refused(column: str, argument: str, given: object, right: str) -> SchemaError:
    """Say which argument of a column is wrong, what was given, and what is right."""
    return SchemaError(f"{column}: {argument}={shown(given)} is not valid: expected {right}")


def plain_scalar(value: object) -> object:
    """Replace a numpy scalar by Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def finite_number(column: str, argument: str, given: object) -> float:
    """Check that an argument is a finite number; `SchemaError` if it is not."""
    value = plain_scalar(given)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(column, argument, given, "a finite number")
    number = read_cell(value)
    if not math.isfinite(number):  # type: ignore[arg-type]
        raise refused(column, argument, given, "a finite number")
    return float(number) + 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Column(ABC):
    """What is declared about one column. Use `Real`, `Integer`, `Boolean` or `Category`.

    Parameters
    ----------
    missing, impossible : "drop" or a constant of the column, optional
        What becomes of a missing cell (None, NaN, NaT, NA, blank text) and of an impossible one (a value the
        column cannot hold). ``"drop"`` drops the row; a declared constant takes the cell's place.
    """

    kind: ClassVar[str]

    missing: Any = field(default=DROP, kw_only=True)
    impossible: Any = field(default=DROP, kw_only=True)

    def __post_init__(self) -> None:
        self._declare()
        for name in ("missing", "impossible"):
            object.__setattr__(self, name, self._policy(name, getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Column) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        declared = self.to_dict()
        shown = [repr(declared[name]) for name in declared if name in ("lower", "upper", "levels")]
        shown += [f"{p}={declared[p]!r}" for p in ("missing", "impossible") if declared[p] != DROP]
        return f"{type(self).__name__}({', '.join(shown)})"

    @cached_property
    def _key(self) -> str:
        # JSON tells 1, 1.0, True and "1" apart; comparing the fields would not.
        return json.dumps(self.to_dict())

    def _policy(self, name: str, given: object) -> object:
        given = plain_scalar(given)
        return DROP if isinstance(given, str) and given == DROP else self._constant(name, given)

    @property
    def may_drop(self) -> bool:
        """Whether a row can be dropped because of this column: False if both policies are constants."""
        return any(isinstance(p, str) and p == DROP for p in (self.missing, self.impossible))

    @property
    def level_texts(self) -> tuple[str, ...]:
        """Canonical text of each level, in order; empty for a column that has no levels."""
        return ()

    def level_index(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index into `level_texts` of coerced values that are within the bounds, shape (m,)."""
        return (values - float(getattr(self, "lower", 0.0))).astype(np.intp)

    def coerce(self, raw: NDArray[Any] | Coded) -> NDArray[np.float64]:  # noqa: PLR0911  (a return for each storage)
        """Turn cells of any storage into floats (m,), with the policies applied. Bounds are not applied.

        The number, 0 or 1, or the level's index; **not finite where the row is to be dropped** (NaN, except that a
        float64 array for a `Real` with both policies "drop" comes back as it is, with its infinities). Never raises or
        warns whatever the cells hold. A cell's value depends on that cell alone.
        """
        if isinstance(raw, Coded):
            return self._settle(self._read([*raw.values, None]))[raw.positions]
        if raw.dtype.kind == "U":
            coded = distinct_texts(raw.tolist())
            return self._settle(self._read([*coded.values, None]))[coded.positions]
        if raw.dtype.kind == "b":
            return self._settle(self._read([False, True]))[raw.astype(np.intp)]
        if raw.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                return self._settle(self._numbers(raw.astype(np.float64, copy=False)))
        if raw.dtype.kind in "mM":
            return self._settle(np.where(np.isnat(raw), MISSING, IMPOSSIBLE))
        if raw.dtype.kind == "c":
            return self._settle(self._numbers(complex_to_numbers(raw)))
        return self._settle(self._read(raw.tolist()))

    def _read(self, cells: Iterable[object]) -> NDArray[np.float64]:
        return np.array([self._value(read_cell(cell)) for cell in cells], dtype=np.float64)

    def _settle(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply the policies to values in which NaN is missing and an infinity impossible."""
        missing, impossible = self._coded(self.missing), self._coded(self.impossible)
        settled = np.where(np.isinf(values), impossible, values)
        return settled if math.isnan(missing) else np.where(np.isnan(values), missing, settled)

    def _coded(self, policy: object) -> float:
        return MISSING if isinstance(policy, str) and policy == DROP else self._value(read_cell(policy))

    @abstractmethod
    def _declare(self) -> None:
        """Check and normalise the declared bounds or levels."""

    @abstractmethod
    def _constant(self, name: str, given: object) -> object:
        """Check and normalise the constant of a policy."""

    @abstractmethod
    def _value(self, cell: bool | float | str) -> float:
        """Value of one cell as `read_cell` gives it."""

    @abstractmethod
    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of an array of numeric cells: `_value`, on arrays."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` values uniformly within the bounds or among the levels, shape (n,)."""

    @abstractmethod
    def describe(self) -> str:
        """Bounds or levels in a few words, for tables."""

    def to_dict(self) -> dict[str, Any]:
        """Give the declaration as JSON-ready values; `column_from_dict` reads it back."""
        return {"kind": self.kind, **self._limits(), "missing": self.missing, "impossible": self.impossible}

    def _limits(self) -> dict[str, Any]:
        return {}
