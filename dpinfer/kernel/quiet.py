"""No warning while confidential rows are read: whether one is given may depend on a row."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["quiet"]

_lock = threading.Lock()
_held: list[Any] = []
_users = 0


@contextmanager
def quiet(private: bool = True) -> Iterator[None]:
    """Ignore all warnings, in every thread of the pass; runs that overlap share one change of the filters."""
    if not private:
        yield
        return
    _enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _leave()


def _enter() -> None:
    global _users  # noqa: PLW0603  (filters belong to the process, and so does their number of users)
    with _lock:
        _users += 1
        if _users == 1:
            _held.append(warnings.catch_warnings())
            _held[0].__enter__()
        warnings.simplefilter("ignore")  # anew in each run: a procedure that another one asks may have changed it


def _leave() -> None:
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            _held.pop().__exit__(None, None, None)
