"""Questions as releases store them: which fields, of which types, and the question that a release was made for."""

from __future__ import annotations

from dataclasses import Field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_type_hints

from dpinfer.errors import ReleaseFormatError, names_of
from dpinfer.kernel.stage import Context
from dpinfer.release.release import find_inference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.procedures.procedure import Procedure
    from dpinfer.release import Release

__all__ = ["context_of", "hints", "read_question", "refuse_unknown_fields", "stored_fields"]


def context_of(release: Release) -> Context:
    """Return what is public about the run that made a release."""
    return Context(release.schema, release.neighbors, release.cost.price, release.nobs, release.public)


def read_question(release: Release) -> Procedure:
    """Return the question that a release was made for, bound to it.

    Raises
    ------
    InferenceError
        If its procedure is not known.
    ReleaseFormatError
        If the question is damaged.
    """
    found: Procedure = find_inference(release.question.get("procedure")).__self__.from_release(release)  # type: ignore[attr-defined]
    return found


@lru_cache(maxsize=128)
def stored_fields(cls: type[Procedure]) -> tuple[Field[Any], ...]:
    """Fields of a question that releases hold."""
    return tuple(one for one in fields(cls) if one.metadata.get("role") != "unstored")


def refuse_unknown_fields(cls: type[Procedure], question: Mapping[str, Any]) -> None:
    """Refuse a stored question that has fields of another."""
    known = {"procedure", "text", "schema", "read"} | {one.name for one in stored_fields(cls)}
    unknown = [name for name in question if name not in known]
    if unknown:
        raise ReleaseFormatError(f"{names_of(unknown)}: unknown to {cls.__name__}")


@lru_cache(maxsize=128)
def hints(cls: type[Procedure]) -> dict[str, Any]:
    """Return the declared types of a question's fields."""
    found: dict[str, Any] = get_type_hints(cls)
    return found
