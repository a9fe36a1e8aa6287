"""The options of a question: how its fields are declared, and which values they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError

__all__ = [
    "FINITE",
    "NUMERIC",
    "REPLICATES",
    "SEED",
    "TARGET",
    "TRUTH",
    "Allowed",
    "Contrasts",
    "check_values",
    "inferred",
    "is_number",
    "is_text",
    "measured",
    "named",
    "one_of",
    "refuse_simulated",
    "texts_of",
    "unstored",
    "whole",
]

Contrasts = Mapping[str, Mapping[str, float]] | None
"""Weights by coefficient, of quantities by name; None for the coefficients themselves."""


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
        if not self.fits(given):
            raise OptionError(option, given, self.expected)


def one_of(values: tuple[Any, ...]) -> Allowed:
    """Allow listed values."""
    return Allowed(lambda given: given in values, values)


def named(expected: str) -> Allowed:
    """Allow the name of a column."""
    return Allowed(lambda given: isinstance(given, str) and bool(given), expected)


def whole(least: int, most: int, expected: str) -> Allowed:
    """Allow whole numbers in a range."""
    return Allowed(lambda given: type(given) is int and least <= given <= most, expected)


def is_number(given: object) -> bool:
    """Whether it is a number, of Python or numpy, and no truth value."""
    return isinstance(given, int | float | np.number) and not isinstance(given, bool)


def is_text(given: object) -> bool:
    """Whether it is a text that is not blank."""
    return isinstance(given, str) and bool(given.strip())


def texts_of(given: object) -> tuple[str, ...]:
    """Return one text, or a sequence of texts, as a tuple; of anything else an empty one."""
    listed = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    return listed if all(isinstance(one, str) for one in listed) else ()


TARGET = one_of(("population", "data"))
REPLICATES = Allowed(lambda given: type(given) is int and given >= 99, "a whole number of at least 99")
SEED = Allowed(
    lambda given: type(given) is int and given >= 0,
    "a whole number, not negative: it is public and draws no privacy noise",
)
FINITE = Allowed(lambda given: is_number(given) and bool(np.isfinite(given)), "a finite number")
NUMERIC = Allowed(is_text, 'a column, or an expression such as "log(1 + income)"')
TRUTH = Allowed(lambda given: isinstance(given, bool), "True or False")


def measured(default: Any, allowed: Allowed | None = None) -> Any:
    """Declare a field that says what is measured."""
    return _declared(default, allowed, "measured")


def inferred(default: Any, allowed: Allowed | None = None) -> Any:
    """Declare a field of a question that only inference uses: any release of the same measured fields serves it."""
    return _declared(default, allowed, "inferred")


def unstored(default: Any, allowed: Allowed | None = None) -> Any:
    """Declare a field that only running uses, such as a number of processes: releases do not hold it."""
    return _declared(default, allowed, "unstored")


def _declared(default: Any, allowed: Allowed | None, role: str) -> Any:
    return field(default=default, metadata={"role": role, "allowed": allowed}, repr=role != "unstored")


def check_values(question: Any) -> None:
    """Refuse a question with an option that has no such value.

    Raises
    ------
    OptionError
    """
    for one in fields(question):
        allowed = one.metadata.get("allowed")
        if allowed is not None:
            allowed.check(one.name, getattr(question, one.name))


def refuse_simulated(inference: str) -> None:
    """Refuse to simulate for many releases at once.

    Raises
    ------
    NotProvedError
    """
    if inference == "simulated":
        raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
