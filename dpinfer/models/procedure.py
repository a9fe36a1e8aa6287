"""What every procedure is: a frozen question that measures when bound to data, and infers from releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from dpinfer.errors import InferenceError, OptionError
from dpinfer.mechanisms import Data, run
from dpinfer.models.keywords import suggests
from dpinfer.privacy.units import NEIGHBORS, Privacy
from dpinfer.release import Measurement, Release
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors

__all__ = ["Procedure"]


@dataclass(frozen=True, eq=False)
class Procedure(ABC):
    """A question about columns, free of data; every option is on its constructor.

    A subclass says what it measures (`measurement`), how it shows the noise in advance (`explain`) and how
    it infers (`infer`). It never sees a row.

    Attributes
    ----------
    source : Data, Release or None
        What it is bound to: data to measure, a release to infer from, or nothing yet.
    """

    source: Data | Release | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a source that is neither data nor a release."""
        if not (self.source is None or isinstance(self.source, Data | Release)):
            raise OptionError("data", type(self.source).__name__, "PrivateData, PublicData or a Release")

    @abstractmethod
    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Say what would be done to the rows at a price: the measurement, all of it public.

        Parameters
        ----------
        privacy : PureDP, ZCDP, GDP or ApproxDP
        schema : Schema, optional
            Needed where the procedure is not bound to data.
        neighbors : {"add_remove", "replace_one"}, optional
            As ``schema``.
        """

    @abstractmethod
    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent."""

    @abstractmethod
    def infer(self, release: Release | None = None) -> Any:
        """Infer from a release (by default the one it is bound to): free, and without any row."""

    def bind(self, source: Data | Release) -> Self:
        """Return the same question about other data or another release."""
        return replace(self, source=source)

    @suggests
    def measure(self, privacy: Privacy) -> Release:
        """Measure the data it is bound to, and pay.

        Parameters
        ----------
        privacy : PureDP, ZCDP, GDP or ApproxDP
            The price.

        Returns
        -------
        Release

        Raises
        ------
        BudgetExceededError
            If the ledger has too little left; nothing is then drawn.
        OptionError
            If the procedure is not bound to data.
        """
        data = self._data()
        return run(self.measurement(privacy), data)

    @suggests
    def fit(self, privacy: Privacy) -> Any:
        """Measure and infer; parameters and errors as `measure`."""
        return self.infer(self.measure(privacy))

    def _data(self) -> Data:
        if isinstance(self.source, Data):
            return self.source
        if isinstance(self.source, Release):
            raise OptionError(
                "data", "a release", "PrivateData or PublicData to measure; a release only infers: .infer()"
            )
        raise OptionError("data", None, "PrivateData or PublicData: pass it to the procedure, or use .bind(data)")

    def _release(self, release: Release | None) -> Release:
        chosen = self.source if release is None else release
        if not isinstance(chosen, Release):
            raise OptionError(
                "release", type(chosen).__name__, "a Release, from .measure(privacy) or read_release(path)"
            )
        return chosen

    def _asked(self, release: Release | None, kind: str, **asked: Any) -> Release:
        """Return the release to infer from; refuse one that was made for another question.

        Raises
        ------
        InferenceError
        """
        chosen = self._release(release)
        differs = [name for name, value in asked.items() if chosen.question.get(name) != value]
        if chosen.kind != kind or differs:
            told = f": {', '.join(differs)} differ" if chosen.kind == kind else f", of kind {chosen.kind!r}"
            raise InferenceError(
                f"the release was made for another question ({chosen.question['text']}){told}; "
                "its own is answered by release.infer()"
            )
        return chosen

    def _context(
        self, privacy: Privacy, schema: Schema | None, neighbors: Neighbors | None
    ) -> tuple[Schema, Neighbors, int | None]:
        """Return schema, neighbours and public number of rows that a measurement would have."""
        if not isinstance(privacy, Privacy):
            raise OptionError(
                "privacy", privacy, "an amount such as ZCDP(0.1), PureDP(1.0), GDP(0.5), ApproxDP(1.0, 1e-6)"
            )
        bound = self.source if isinstance(self.source, Data) else None
        schema = schema if schema is not None else bound.schema if bound else None
        if not isinstance(schema, Schema):
            raise OptionError("schema", schema, "a Schema, or a procedure that is bound to data")
        if neighbors is None:
            neighbors = bound.neighbors if bound else "add_remove"
        if neighbors not in NEIGHBORS:
            raise OptionError("neighbors", neighbors, NEIGHBORS)
        return schema, neighbors, bound.nobs if bound else None
