"""Tests of arguments, in one small set: a name, what was given, what would be right, and one error where it is wrong.

An argument is tested where it enters, and trusted behind.

>>> whole(1, 9).check("replicates", 3)
>>> whole(1, 9).check("replicates", True)
Traceback (most recent call last):
    ...
dpinfer.errors.OptionError: replicates=True is not valid: expected a whole number from 1 to 9
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import numpy as np

from dpinfer.errors import OptionError, type_of

T = TypeVar("T")


@dataclass(frozen=True)
class Allowed:
    """Which values an option takes: a test of a value, and what a message says would be right."""

    fits: Callable[[Any], bool]
    expected: str | tuple[Any, ...]

    def check(self, option: str, given: Any) -> None:
        """Refuse what does not fit.

        Raises
        ------
        OptionError
        """
        require(self.fits(given), option, given, self.expected)


def require(right: object, option: str, given: object, expected: str | Iterable[str]) -> None:
    """Refuse an argument unless it is ``right``.

    Raises
    ------
    OptionError
    """
    if not right:
        raise OptionError(option, given, expected)


def one_of(values: tuple[Any, ...]) -> Allowed:
    """Allow listed values."""
    return Allowed(lambda given: given in values, values)


def named(expected: str) -> Allowed:
    """Allow the name of a column."""
    return Allowed(lambda given: isinstance(given, str) and bool(given), expected)


def whole(least: int, most: int, expected: str = "") -> Allowed:
    """Allow whole numbers of Python in a range."""
    right = expected or f"a whole number from {least:,} to {most:,}"
    return Allowed(lambda given: type(given) is int and least <= given <= most, right)


def of_type(
    kind: type[T] | tuple[type[T], ...], option: str, given: object, expected: str, *, hidden: bool = False
) -> T:
    """Return an argument that is of a type, and refuse any other; errors as `require`.

    Of one that may hold rows by mistake the message shows nothing but the type: ``hidden``.
    """
    if isinstance(given, kind):
        return given
    raise OptionError(option, type_of(given) if hidden else given, expected)


def is_number(given: object) -> TypeGuard[float]:
    """Whether it is a number, of Python or numpy, and no truth value."""
    return isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)


def is_finite(given: Any) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return is_number(given) and bool(np.isfinite(given))


def is_whole(given: object) -> TypeGuard[int]:
    """Whether it is a whole number, of Python or numpy, and no truth value."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def is_text(given: object) -> TypeGuard[str]:
    """Whether it is a text that is not blank."""
    return isinstance(given, str) and bool(given.strip())


def is_list(given: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is an ordered collection, such as a list, a tuple or an array, and no text."""
    return isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) and getattr(given, "ndim", 1) > 0


def items_of(given: object) -> tuple[Any, ...]:
    """Return the elements of a sequence, or one text, as a tuple; of anything else an empty one."""
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()


def are_texts(given: Iterable[object]) -> bool:
    """Whether all are texts."""
    return all(isinstance(one, str) for one in given)


def texts_of(given: object) -> tuple[str, ...]:
    """Return one text, or a sequence of texts, as a tuple; of anything else an empty one."""
    found = items_of(given)
    return found if are_texts(found) else ()


TRUTH = Allowed(lambda given: isinstance(given, bool), "True or False")
MAYBE = Allowed(lambda given: given is None or isinstance(given, bool), "True, False or None")
PATH: tuple[type[Any], ...] = (str, os.PathLike)
FINITE = Allowed(is_finite, "a finite number")
