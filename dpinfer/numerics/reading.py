"""Reading numbers that a user gave."""

from __future__ import annotations

from typing import Any

__all__ = ["floats"]


def floats(given: Any) -> tuple[float, ...] | None:
    """Read an iterable of numbers as floats; None if it is none.

    Raising is left to the caller, outside of this handler: the exception of ``float`` quotes what it could not
    read, which may be a cell, and a later error would carry that as its context.
    """
    try:
        return tuple(float(one) for one in given)
    except (TypeError, ValueError, OverflowError):
        return None
