"""What every procedure is: a frozen question that measures when bound to data, and infers from releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from dpinfer.errors import InferenceError, OptionError
from dpinfer.kernel.measurement import price_procedure
from dpinfer.kernel.stage import Context, Data, Slot
from dpinfer.privacy.units import Privacy
from dpinfer.procedures.keywords import suggests
from dpinfer.release import Release
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.stage import Stage
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["Procedure"]


@dataclass(frozen=True, eq=False)
class Procedure(ABC):
    """A question about columns, free of data; every option is on its constructor.

    A subclass says in which stages rows are asked (`slots`, `stage`) and how it infers (`infer`). It never sees a row,
    a noise scale or a cost: those are the kernel's.

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

    # What is measured

    @abstractmethod
    def release_kind(self, context: Context) -> str:
        """Return the name under which its releases are read."""

    @abstractmethod
    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask the rows one question.

        Parameters
        ----------
        place : int
            Which stage, from 0.
        context : Context
            What is public about the run.
        released : tuple of StageRelease
            What earlier stages released, where the slot is adaptive; else empty.
        """

    @abstractmethod
    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question: a JSON-ready mapping with its "text" and "schema"."""

    def resolve(self, context: Context) -> Self:  # noqa: ARG002
        """Return the same question with every "auto" that the context decides replaced."""
        return self

    def slots(self, context: Context) -> tuple[Slot, ...]:  # noqa: ARG002
        """Return what each stage may take of the price; by default one stage takes it all."""
        return (Slot(),)

    def units(self, context: Context) -> Blocks | None:  # noqa: ARG002
        """Return the blocks that are summed, where rows are dealt into secret ones; by default none."""
        return None

    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Say what would be done to the rows at a price: bounds, noise and cost, all of it public.

        Parameters
        ----------
        privacy : PureDP, ZCDP, GDP or ApproxDP
        schema : Schema, optional
            Needed where the procedure is not bound to data.
        neighbors : {"add_remove", "replace_one"}, optional
            As ``schema``.

        Raises
        ------
        DPInferError
            If it cannot be measured at this price.
        """
        context = self._context(privacy, schema, neighbors)
        return price_procedure(self.resolve(context), context)

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent."""
        return self.measurement(privacy, schema=schema, neighbors=neighbors).describe()

    # What is inferred

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
        return self._data().run(self, privacy)

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

    def _context(self, privacy: Privacy, schema: Schema | None = None, neighbors: Neighbors | None = None) -> Context:
        """Return what is public about a run: of the data it is bound to, or as given."""
        bound = self.source if isinstance(self.source, Data) else None
        if bound is None:
            return Context(schema, neighbors or "add_remove", privacy)  # type: ignore[arg-type]
        return Context(
            schema if schema is not None else bound.schema,
            neighbors if neighbors is not None else bound.neighbors,
            privacy,
            bound.nobs,
            bound.public,
        )
