"""What is audited: a question at a price, public rows, and the stages as a real run asks for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpinfer.errors import DPInferError, OptionError, UnknownColumnError, type_of
from dpinfer.kernel.data import PrivateData, PublicData
from dpinfer.kernel.plan import coordinates, planned, price_next
from dpinfer.kernel.price import amounts
from dpinfer.kernel.run import run
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Context
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy
from dpinfer.procedures.procedure import Procedure
from dpinfer.schema.schema import Schema
from dpinfer.studies.auditing.stated import Stated, stated_amount
from dpinfer.studies.auditing.units import source_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.kernel.plan import Plan
    from dpinfer.kernel.price import PricedStage
    from dpinfer.release import Release
    from dpinfer.release.laws import NoiseLaw

__all__ = ["Asked", "Setting", "Watched", "setting_of"]

_ROWS, _MORE_ROWS = 60, 600
"""Rows that neighbours share; more where so few cannot be dealt into blocks."""


class Watched(PrivateDraws):
    """The real draws of a run, which are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.laws: list[NoiseLaw] = []
        self.drawn: list[list[int]] = []
        self.dealt: list[NDArray[np.intp]] = []

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise."""
        found = super().noise(law)
        self.laws.append(law)
        self.drawn.append(found)
        return found

    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw labels."""
        found = super().labels(size, labels)
        self.dealt.append(found)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """The stages of a real run at a price, with what each may take.

    Attributes
    ----------
    plan : Plan
        What is charged.
    stages : tuple of PricedStage
        Adaptive ones as they were asked for after what the run released.
    shares : tuple of Stated
        What each may give away, derived anew.
    release : Release
    watched : Watched
    """

    plan: Plan
    stages: tuple[PricedStage, ...]
    shares: tuple[Stated, ...]
    release: Release
    watched: Watched


@dataclass(frozen=True, eq=False, slots=True)
class Setting:
    """A question without data, and public rows to ask it of.

    Attributes
    ----------
    procedure : Procedure
    schema : Schema
    neighbors : {"add_remove", "replace_one"}
    privacy : Privacy
    base : DataFrame
        Rows that the two neighbours share.
    """

    procedure: Procedure
    schema: Schema
    neighbors: Neighbors
    privacy: Privacy
    base: pd.DataFrame

    @property
    def stated(self) -> Stated:
        """What the price states."""
        return stated_amount(self.privacy)

    def bound(self, frame: pd.DataFrame) -> Procedure:
        """Bind the question to rows as if they were confidential, with a ledger that holds just the price."""
        ledger = Ledger.in_memory(self.privacy, neighbors=self.neighbors)
        return self.procedure.bind(PrivateData(frame, self.schema, ledger))

    def context(self, frame: pd.DataFrame) -> Context:
        """Return what is public about a run on rows."""
        public = self.neighbors == "replace_one" and self.schema.people is None
        return Context(self.schema, self.neighbors, self.privacy, len(frame) if public else None)

    def watched(self, frame: pd.DataFrame) -> tuple[Release, Watched]:
        """Run the question on rows by the kernel, noting what is drawn."""
        draws = Watched()
        found = run(
            self.bound(frame),
            self.context(frame),
            source=lambda: source_of(frame, self.schema).opened(),
            draws=draws,
            charge=lambda _: "audit",
        )
        return found, draws

    def asked(self, frame: pd.DataFrame) -> Asked:
        """Run the question once, and price each of its stages as that run did."""
        context = self.context(frame)
        question = self.bound(frame).resolve(context)
        plan = planned(question, context, rehearse=True)
        release, draws = self.watched(frame)
        given, most = amounts(self.privacy, plan.slots), coordinates(plan.slots)
        stages = [
            price_next(question, place, slot, amount, context, release.stages[:place], most, plan.blocks)
            if slot.adaptive
            else plan.stages[place]
            for place, (slot, amount) in enumerate(zip(plan.slots, given, strict=True))
        ]
        shares = tuple(self.stated.share(Fraction(slot.share)) for slot in question.slots(context))
        return Asked(plan, tuple(stages), shares, release, draws)


def setting_of(
    procedure: object,
    schema: Schema | None,
    privacy: Privacy,
    neighbors: Neighbors | None,
    rows: object,
    rng: np.random.Generator,
) -> Setting:
    """Check what an audit is given; nothing is read of confidential rows."""
    if not isinstance(procedure, Procedure):
        raise OptionError(
            "procedure", type_of(procedure), "a question, such as dpi.mean(...) or a Procedure of your own"
        )
    if not isinstance(privacy, Privacy):
        raise OptionError(
            "privacy", type_of(privacy), "an amount such as ZCDP(0.1), PureDP(1.0), GDP(0.5), ApproxDP(1.0, 1e-6)"
        )
    source = procedure.source
    if isinstance(source, PrivateData) and rows is None:
        raise OptionError(
            "procedure",
            "a question that is bound to confidential rows",
            "one without data, or rows= of public rows: an audit shows what it is given",
        )
    if isinstance(rows, PrivateData):
        raise OptionError("rows", "PrivateData", "a DataFrame of public rows: an audit shows what it is given")
    if rows is not None and not isinstance(rows, pd.DataFrame):
        raise OptionError("rows", type_of(rows), "a pandas DataFrame of public rows, or None")
    known = source if isinstance(source, PrivateData | PublicData) else None
    schema = schema if schema is not None else known.schema if known else None
    if not isinstance(schema, Schema):
        raise OptionError("schema", type_of(schema), "a Schema, or a procedure that is bound to public data")
    neighbors = neighbors or (known.neighbors if known else "add_remove")
    if neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    setting = Setting(replace(procedure, source=None), schema, neighbors, privacy, _base(schema, rows, rng, _ROWS))
    if rows is None and isinstance(served(setting, privacy), str):  # too few rows for what is asked, it may be
        more = replace(setting, base=_base(schema, rows, rng, _MORE_ROWS))
        return setting if isinstance(served(more, privacy), str) else more
    return setting


def _base(schema: Schema, rows: pd.DataFrame | None, rng: np.random.Generator, size: int) -> pd.DataFrame:
    """Return rows that the neighbours share: so many at most."""
    people = schema.people
    if rows is None:
        found = schema.sample(size, rng)
        if people is not None:
            found[people.id] = [f"person {place // people.max_rows}" for place in range(size)]
        return found
    for name in (*schema, *([people.id] if people is not None else [])):
        if name not in rows.columns:
            raise UnknownColumnError(name, [str(column) for column in rows.columns], "rows")
    if rows.empty:
        raise OptionError("rows", "a frame of no rows", "public rows, or None")
    return rows.iloc[:size].reset_index(drop=True)


def served(setting: Setting, privacy: Privacy) -> Setting | str:
    """Return the setting at another price, or why it is not served."""
    other = replace(setting, privacy=privacy)
    try:
        context = other.context(other.base)
        planned(other.bound(other.base).resolve(context), context)
    except DPInferError as error:
        return f"not tried at {privacy}: {str(error).splitlines()[0][:160]}"
    return other


def name_of(stage: PricedStage, place: int, count: int) -> str:
    """Say which stage it is."""
    rows: Any = stage.rows
    return f"stage {place + 1} of {count} ({type(rows).__name__})" if count > 1 else type(rows).__name__
