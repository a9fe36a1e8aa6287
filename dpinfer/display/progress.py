"""Public progress of long computations: bars on the screen, and lines in the log named dpinfer."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from dpinfer.checks import require
from dpinfer.errors import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

LOG = logging.getLogger("dpinfer")
"""What is said here is public, and the same for all rows: prices and questions of charges, and progress of studies."""

LOG.addHandler(logging.NullHandler())

_AFTER = 2.0
"""Seconds after which a bar appears where none was asked for."""

_CHOSEN: list[bool] = []


def show_progress(shown: bool | None = None) -> None:
    """Turn the progress bars of long computations on or off.

    Parameters
    ----------
    shown : bool, optional
        By default a bar appears after two seconds if messages go to a terminal. In a notebook choose True.

    Raises
    ------
    OptionError
        If ``shown`` is not True, False or None.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> dpi.show_progress(False)  # none, whatever takes long
    >>> dpi.show_progress()  # as by default
    """
    check_progress(shown, "shown")
    _CHOSEN[:] = [] if shown is None else [shown]


def check_progress(progress: object, name: str = "progress") -> None:
    """Refuse an invalid value of ``progress``.

    Raises
    ------
    OptionError
    """
    require(progress is None or isinstance(progress, bool), name, type_of(progress), "True, False or None")


def progress_shown(progress: bool | None) -> bool:
    """Whether bars are shown: as requested here, else by the global setting, else only in a terminal."""
    if progress is not None:
        return progress
    return _CHOSEN[0] if _CHOSEN else sys.stderr.isatty()


def watched(
    values: Iterable[T], what: str, *, total: int | None = None, done: int = 0, progress: bool | None = None
) -> Iterator[T]:
    """Yield values, with a bar that counts them."""
    with watch(what, total=total, done=done, progress=progress) as step:
        for one in values:
            yield one
            step(1)


@contextmanager
def watch(
    what: str, *, total: int | None = None, done: int = 0, progress: bool | None = None, unit: str = "it"
) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts steps; the bar appears at the first step, or after a delay unless requested."""
    bars: list[Any] = []
    shown = progress_shown(progress)

    def count(size: int = 1) -> None:
        if shown and not bars:
            from tqdm.auto import tqdm  # noqa: PLC0415  (imported when first needed)

            delay = 0.0 if progress or _CHOSEN else _AFTER
            bars.append(tqdm(desc=what, total=total, initial=done, delay=delay, unit=unit, leave=bool(progress)))
        for one in bars:
            one.update(size)

    try:
        yield count
    finally:
        for one in bars:
            one.close()
