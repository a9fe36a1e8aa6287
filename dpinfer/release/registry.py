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
    """Register the function that turns releases of a kind into results.

    Parameters
    ----------
    kind : str
        The `Release.kind` it serves.
    """

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        _INFERENCES[kind] = function
        return function

    return keep


def find_inference(release: Release) -> Callable[..., Any]:
    """Return the inference for a release, or say which kinds there are.

    Raises
    ------
    InferenceError
    """
    try:
        return _INFERENCES[release.kind]
    except KeyError:
        known = ", ".join(sorted(_INFERENCES)) or "none (import dpinfer)"
        raise InferenceError(f"no inference is known for a release of kind {release.kind!r}; known: {known}") from None
