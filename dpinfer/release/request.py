"""What a release was asked for, all of it public: it identifies the release without a look at any row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.errors import DPInferError, ReleaseFormatError
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy, privacy_from_dict
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.release.release import Release

_WORDS = ("label", "unit", "source")


@dataclass(frozen=True)
class Request:
    """What is asked of data, as far as it decides what is measured.

    Rows are no part of it: a hash of them, or their number, would be a release that nobody paid for.

    Attributes
    ----------
    question : mapping
        As a release stores it, with the schema of the columns read.
    privacy : Privacy
        The price.
    neighbors : {"add_remove", "replace_one"}
    dataset : str or None
        What the ledger calls the data.
    version : str or None
        The declared version of the data.
    public : bool
        Whether the rows need no protection.
    """

    question: Mapping[str, Any]
    privacy: Privacy
    neighbors: Neighbors
    dataset: str | None
    version: str | None = None
    public: bool = False

    @classmethod
    def of_release(cls, release: Release) -> Request:
        """Return what a release was asked for."""
        price, version = release.cost.price, release.dataset_version
        return cls(release.question, price, release.neighbors, release.dataset, version, release.public)

    def to_json(self) -> str:
        """Return it as JSON text; `ReleaseFormatError` if a field of the question cannot be stored."""
        stored = {
            "question": dict(self.question),
            "price": self.privacy.to_dict(),
            "neighbors": self.neighbors,
            "dataset": self.dataset,
            "version": self.version,
            "public": self.public,
        }
        try:
            return json.dumps(stored, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ReleaseFormatError(f"the question cannot be stored: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Read what `to_json` wrote.

        Raises
        ------
        ReleaseFormatError
            If it is something else, or damaged.
        """
        try:
            stored = json.loads(text)
            price, names = privacy_from_dict(stored["price"]), ("neighbors", "dataset", "version", "public")
            found = cls(stored["question"], price, *(stored[name] for name in names))
            _ = found.schema
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, DPInferError) as error:
            raise ReleaseFormatError(f"what was asked is damaged: {type(error).__name__}") from error
        if found.neighbors not in NEIGHBORS or not isinstance(found.question.get("text"), str):
            raise ReleaseFormatError("what was asked is damaged")
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the columns read."""
        return Schema.from_dict(self.question["schema"])

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """How each column read is declared, as texts; labels, units and sources change no number and are left out."""
        return {
            name: {key: json.dumps(one) for key, one in column.to_dict().items() if key not in _WORDS}
            for name, column in self.schema.items()
        }

    @property
    def conditions(self) -> dict[str, str]:
        """Under which conditions the question is asked, in words."""
        people = self.schema.people
        return {
            "rows": "public, with simulated noise" if self.public else "confidential",
            "data set": str(self.dataset),
            "version of the data": "none declared" if self.version is None else self.version,
            "neighbours": self.neighbors,
            "unit of protection": "one row" if people is None else f"{people.unit}, told apart by {people.id!r}",
            "price": str(self.privacy),
        }
