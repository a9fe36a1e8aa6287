"""Numbers for the levels of a column, as users write them: probabilities and sizes of samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.procedures.options import FINITE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.axes import Axis

    Array = NDArray[np.float64]

__all__ = ["by_label", "read_shares", "read_sizes", "shown"]

_SUM = 1e-8
"""Distance from 1 that the sum of given probabilities may have."""

_RAREST = 1e-15
"""Probability that a level has at least: below, squares of counts over expected ones overflow."""

_LARGEST = 2**53
"""Rows that a sample of public size has at most."""


def shown(pairs: tuple[tuple[Any, float], ...]) -> object:
    """Numbers as they were given: by label, or in order."""
    return [value for _, value in pairs] if all(label is None for label, _ in pairs) else dict(pairs)


def by_label(option: str, pairs: tuple[tuple[Any, float], ...], axis: Axis) -> Array:
    """Numbers by level in the order of an axis; positions where no labels were given."""
    right = f"a value for each level of {axis.name!r}: {', '.join(map(str, axis.labels))}"
    given = dict(pairs)
    if all(label is None for label, _ in pairs):
        if len(pairs) != len(axis.labels):
            raise OptionError(option, [value for _, value in pairs], right)
        return np.array([value for _, value in pairs], dtype=np.float64)
    found = {label: given[label] for label in axis.labels if label in given}
    if len(found) < len(axis.labels) or len(given) != len(axis.labels) or len(pairs) != len(axis.labels):
        raise OptionError(option, given, right)
    return np.array([found[label] for label in axis.labels], dtype=np.float64)


def _pairs(option: str, given: object, labels: Sequence[Any] | None, right: str) -> tuple[tuple[Any, float], ...]:
    if labels is None and isinstance(given, Mapping):
        labels, values = list(given), list(given.values())
    elif labels is None and isinstance(given, pd.Series):
        labels, values = given.index.tolist(), given.tolist()
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        values = list(given)
        labels = [None] * len(values) if labels is None else labels
    else:
        raise OptionError(option, given, right)
    if len(values) < 2 or not all(map(FINITE.fits, values)) or not all(isinstance(one, Hashable) for one in labels):
        raise OptionError(option, given, right)
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return tuple((label, float(number)) for label, number in zip(plain, values, strict=True))


def read_shares(
    option: str, given: object, labels: Sequence[Any] | None = None, *, scaled: bool = False
) -> tuple[tuple[Any, float], ...]:
    """Read probabilities from an array (by position), or a Series or mapping (by level).

    Raises
    ------
    OptionError
        If they are not positive, a share is below 1e-15, or they do not add up to 1 and are not to be ``scaled`` to it.
    """
    right = "positive numbers" if scaled else "positive probabilities that add up to 1"
    pairs = _pairs(option, given, labels, right + ", one for each level")
    total = sum(value for _, value in pairs)
    if min(value for _, value in pairs) <= 0:
        raise OptionError(option, given, right + ": a level of probability 0 is ruled out by one row, not by a test")
    if not scaled and abs(total - 1) > _SUM:
        raise OptionError(option, given, f"{right}, not to {'more' if total > 1 else 'less'}")
    if min(value for _, value in pairs) / total < _RAREST:
        raise OptionError(option, given, f"{right}, each a share of at least {_RAREST:g}")
    return tuple((label, value / total) for label, value in pairs)


def read_sizes(given: object, labels: Sequence[Any] | None = None) -> tuple[tuple[Any, float], ...]:
    """Read public sizes of samples; as `read_shares`.

    Raises
    ------
    OptionError
    """
    right = f"positive whole numbers up to {_LARGEST:.3g}, one for each sample"
    pairs = _pairs("sizes", given, labels, right)
    if not all(1 <= value <= _LARGEST and value == round(value) for _, value in pairs):
        raise OptionError("sizes", given, right)
    return pairs
