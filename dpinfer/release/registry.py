"""Procedures by name: where a release finds the one that it was made by, and who reads advice from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dpinfer.errors import InferenceError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.release.release import Release

__all__ = ["ADVICE", "Advice", "find_inference", "register"]

_INFERENCES: dict[str, Callable[..., Any]] = {}


def register(name: str, infer: Callable[..., Any]) -> None:
    """Keep what turns releases of a procedure into results: ``infer(release, **options)``.

    A release names the procedure in its question.
    """
    _INFERENCES[name] = infer


def find_inference(asked: object) -> Callable[..., Any]:
    """Return the inference for the procedure that a release was asked by; `InferenceError` names those known."""
    if isinstance(asked, str) and asked in _INFERENCES:
        return _INFERENCES[asked]
    known = ", ".join(sorted(_INFERENCES)) or "none"
    raise InferenceError(
        f"no procedure {shown(asked)} is known: import the module that defines it (import dpinfer for its own); "
        f"known: {known}"
    )


class Advice(NamedTuple):
    """A sentence on the quality of data, and the columns that it is about."""

    columns: tuple[str, ...]
    text: str


ADVICE: dict[str, Callable[[Release], tuple[Advice, ...]]] = {}
"""What reads advice from releases of a kind."""
