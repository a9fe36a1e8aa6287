"""A progress bar where public rows are fitted one data set after the other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["watched"]


@contextmanager
def watched(progress: bool) -> Iterator[Callable[[], None]]:
    """Give a function that counts fits; a bar appears at the first one."""
    bar: list[Any] = []

    def count() -> None:
        if progress and not bar:
            from tqdm.auto import tqdm  # noqa: PLC0415  (imported when first needed)

            bar.append(tqdm(desc="fits of public rows", unit=" fits"))
        for one in bar:
            one.update()

    try:
        yield count
    finally:
        for one in bar:
            one.close()
