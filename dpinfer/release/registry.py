"""Where a release finds the inference for what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.release.release import Release

__all__ = ["find_inference", "register_inference"]

_INFERENCES: dict[str, Callable[..., Any]] = {}


def register_inference(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function that turns releases into results.

    Parameters
    ----------
    kind : str
        The `Release.kind` it serves, or what the question of a release names under "asked": a test, say, that was
        asked of a table.
    """

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        _INFERENCES[kind] = function
        return function

    return keep


def find_inference(release: Release) -> Callable[..., Any]:
    """Return the inference for what a release was asked, or say which kinds there are.

    Raises
    ------
    InferenceError
    """
    asked = release.question.get("asked", release.kind)
    if isinstance(asked, str) and asked in _INFERENCES:
        return _INFERENCES[asked]
    known = ", ".join(sorted(_INFERENCES)) or "none (import dpinfer)"
    raise InferenceError(f"no inference is known for a release of kind {asked!r}; known: {known}")
