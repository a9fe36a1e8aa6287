"""Questions as JSON and back: one codec, which reads each field by its declared type and refuses it by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from dpinfer.errors import DPInferError, ReleaseFormatError

__all__ = ["decode", "encode"]

_NUMBERS = (int, float)


def encode(value: Any) -> Any:  # noqa: PLR0911  (a return for each type)
    """Write a value of a question as JSON can hold it.

    Parameters
    ----------
    value : None, bool, int, float, str, Fraction, ndarray, sequence or mapping of these, or an object with ``to_dict``

    Returns
    -------
    JSON-ready value
        `decode` reads it back, given the value's type.

    Raises
    ------
    TypeError
        If it is of another type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): encode(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [encode(one) for one in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"a {type(value).__name__} cannot be stored in a release")


def decode(name: str, stored: Any, expected: Any) -> Any:
    """Read what `encode` wrote.

    Parameters
    ----------
    name : str
        What the value is called, for messages.
    stored : object
    expected : type
        ``None``, ``bool``, ``int``, ``float``, ``str``, ``Fraction``, ``ndarray``, ``Any``, a ``Literal``, a union,
        ``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, X]``, or a class with ``from_dict``.

    Returns
    -------
    object

    Raises
    ------
    ReleaseFormatError
        If it is of another type: the message names the field.
    """
    origin = get_origin(expected)
    if origin in (Union, UnionType):
        return _one_of(name, stored, get_args(expected))
    if origin is Literal:
        return stored if stored in get_args(expected) else _refuse(name, expected)
    if origin is tuple:
        return _tuple(name, stored, get_args(expected))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(stored, dict):
            _refuse(name, expected)
        return {key: decode(f"{name}[{key!r}]", one, get_args(expected)[1]) for key, one in stored.items()}
    return _plain(name, stored, expected)


def _plain(name: str, stored: Any, expected: Any) -> Any:  # noqa: PLR0911  (a return for each type)
    if expected is Any:
        return stored
    if expected in (None, NoneType):
        return None if stored is None else _refuse(name, expected)
    if expected is float:
        right = type(stored) in _NUMBERS and math.isfinite(stored)
        return float(stored) if right else _refuse(name, expected)
    if expected in (bool, int, str):
        return stored if type(stored) is expected else _refuse(name, expected)
    if expected is Fraction:
        return _fraction(name, stored)
    if expected is np.ndarray:
        return _array(name, stored)
    if isinstance(stored, Mapping):
        return _object(name, stored, expected)
    return _refuse(name, expected)


def _object(name: str, stored: Mapping[str, Any], expected: Any) -> Any:
    try:
        return expected.from_dict(stored)
    except (DPInferError, KeyError, TypeError, ValueError, OverflowError):
        pass
    return _refuse(name, expected)


def _one_of(name: str, stored: Any, members: tuple[Any, ...]) -> Any:
    for member in members:
        try:
            return decode(name, stored, member)
        except ReleaseFormatError:
            continue
    return _refuse(name, Union[members])  # noqa: UP007


def _tuple(name: str, stored: Any, members: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(stored, list):
        _refuse(name, tuple)
    if len(members) == 2 and members[1] is Ellipsis:
        members = (members[0],) * len(stored)
    if len(stored) != len(members):
        _refuse(name, tuple)
    return tuple(decode(f"{name}[{i}]", one, kind) for i, (one, kind) in enumerate(zip(stored, members, strict=True)))


def _fraction(name: str, stored: Any) -> Fraction:
    parts = stored.split("/") if isinstance(stored, str) else []
    if not 1 <= len(parts) <= 2 or not all(part.lstrip("-").isdecimal() and len(part) < 400 for part in parts):
        _refuse(name, Fraction)
    if len(parts) == 2 and int(parts[1]) == 0:
        _refuse(name, Fraction)
    return Fraction(*map(int, parts))


def _array(name: str, stored: Any) -> np.ndarray:
    try:
        found = np.array(stored, dtype=np.float64) if isinstance(stored, list) else None
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or not np.isfinite(found).all():
        _refuse(name, np.ndarray)
    assert found is not None
    return found


def _refuse(name: str, expected: Any) -> Any:
    words = str(getattr(expected, "__name__", expected)).replace("typing.", "")
    raise ReleaseFormatError(f"{name} is of a wrong type: expected {words}")
