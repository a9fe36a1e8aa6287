"""What is audited: a stated guarantee, a run of a question, and the neighbours that change its sums most.

The stated guarantee and the privacy loss of the noise are derived anew, without the kernel's own cost code. An amount
is what composes: epsilon for Laplace noise, squared mu for Gaussian noise. Privacy parameters are read as the decimals
they print as, and compared with the floats of the noise distribution as exact fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy import special
from scipy.spatial.distance import cdist

from dpinfer.errors import DPInferError, OptionError, UnknownColumnError, type_of
from dpinfer.kernel.data import PrivateData, PublicData
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.plan import planned
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, block_values
from dpinfer.kernel.run import run
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.sources import open_table
from dpinfer.kernel.stage import Above, Context, Largest, Resampled
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Neighbors, Privacy, PureDP
from dpinfer.procedures.procedure import Procedure
from dpinfer.schema.columns import Boolean, Category, Integer
from dpinfer.studies.power import public_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.kernel.plan import Plan
    from dpinfer.kernel.price import PricedStage
    from dpinfer.kernel.sources import Table
    from dpinfer.privacy.accounting import ChoiceLaw
    from dpinfer.release import Release
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Places

__all__ = [
    "ODD", "AuditedRun", "Kind", "Pair", "Setting", "Stated", "Unit", "Units", "Worst", "added", "choice_amount",
    "frame_of", "losses", "privacy_loss", "served", "setting_of", "source_of", "stated_amount", "strong", "sums_of",
    "worst_blocks", "worst_in_data", "worst_units",
]  # fmt: skip

Kind = Literal["mu", "epsilon"]

_OUTWARD = Fraction(1_000_000_001, 10**9)
"""What is found in floats is allowed to be so much larger."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The guarantee that privacy parameters state.

    Attributes
    ----------
    kind : {"mu", "epsilon"}
        The measure by which the noise is judged.
    amount : Fraction
        Epsilon, or the square of mu.
    """

    kind: Kind
    amount: Fraction

    @property
    def level(self) -> float:
        """The stated epsilon or mu."""
        return float(self.amount) if self.kind == "epsilon" else math.sqrt(self.amount)

    def share(self, part: Fraction) -> Stated:
        """Return a share of it."""
        return Stated(self.kind, self.amount * Fraction(part))

    def ratio(self, amount: Fraction | float) -> float:
        """Return the privacy loss over the stated one, both as epsilon or mu; infinite without noise."""
        if amount == math.inf:
            return math.inf
        part = Fraction(amount) / self.amount
        return float(part) if self.kind == "epsilon" else math.sqrt(part)

    def exceeded(self, amount: Fraction | float) -> bool:
        """Whether an amount exceeds the stated one, in exact arithmetic."""
        return bool(amount > self.amount)


def stated_amount(privacy: Privacy) -> Stated:
    """Read privacy parameters; for Gaussian noise as the mu that they state.

    ZCDP(rho) states mu = sqrt(2 rho), and ApproxDP the largest mu that implies it. Bun & Steinke (2016), proposition
    1.6; Dong, Roth & Su (2022), corollary 2.13.
    """
    if isinstance(privacy, PureDP):
        return Stated("epsilon", Fraction(repr(float(privacy.epsilon))))
    if isinstance(privacy, ZCDP):
        return Stated("mu", 2 * Fraction(repr(float(privacy.rho))))
    if isinstance(privacy, GDP):
        return Stated("mu", Fraction(repr(float(privacy.mu))) ** 2)
    assert isinstance(privacy, ApproxDP)
    epsilon, delta = privacy.epsilon, privacy.delta

    def profile(mu: float) -> float:
        first = special.log_ndtr(-epsilon / mu + mu / 2)
        return float(np.exp(first) - np.exp(epsilon + special.log_ndtr(-epsilon / mu - mu / 2)))

    low, high = 0.0, 1.0
    while profile(high) < delta:
        high *= 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if profile(middle) < delta else (low, middle)
    return Stated("mu", (Fraction(high) * _OUTWARD) ** 2)


def strong(privacy: Privacy) -> Privacy:
    """Return large privacy parameters, for which few runs suffice: mu = 3 or epsilon = 3."""
    if isinstance(privacy, PureDP):
        return PureDP(3.0)
    return ZCDP(4.5) if isinstance(privacy, ZCDP) else GDP(3.0)


# What a change of sums gives away


def privacy_loss(change: Sequence[int], priced: PricedStage) -> Fraction | float:
    """Privacy loss of a change of the exact sums under given noise, as a fraction; infinite without noise.

    A discrete Gaussian of scale s at a change d: mu^2 = d^2/s^2, as the continuous one (Canonne, Kamath & Steinke 2020,
    theorem 7, for rho = mu^2/2). A discrete Laplace: epsilon = abs(d)/s. Released sums are multiplied first; several
    draws of scale s that answer together are like one of scale s for the sum times the multiplier.
    """
    total = Fraction(0)
    for moved, scale in zip(change, priced.law.scales, strict=True):
        if moved and not scale:
            return math.inf
        if moved:
            one = Fraction(abs(int(moved)) * priced.multiplier) / Fraction(scale)
            total += one if priced.law.family in ("laplace", "tulap") else one * one
    return total


def losses(changes: Array, priced: PricedStage) -> Array:
    """Return the privacy loss of many changes (R, m) as floats, for searching."""
    scales = np.asarray(priced.law.scales)
    bare = scales == 0
    each = np.abs(changes) * priced.multiplier / np.where(bare, 1.0, scales)
    found: Array = (each if priced.law.family in ("laplace", "tulap") else each**2)[:, ~bare].sum(axis=1)
    found[(changes[:, bare] != 0).any(axis=1)] = np.inf
    return found


# What a choice gives away


def choice_amount(gap: Fraction, privacy: Privacy, law: ChoiceLaw) -> Fraction:
    """Privacy loss of a choice, from ``gap``: the range of its log likelihood ratios, or a bound for permute-and-flip.

    Bounded range ``gap`` implies ``gap^2/8``-zCDP (Cesar & Rogers 2021) and the GDP of pure ``gap/2``. Pure ``gap``
    implies ``gap^2/2``-zCDP and GDP with ``2 Phi^-1(e^gap / (1 + e^gap))``.
    """
    if isinstance(privacy, PureDP):
        return gap
    inner = gap / 2 if law == "gumbel" else gap
    if isinstance(privacy, ZCDP):
        return inner**2
    quantile = float(-special.ndtri(special.expit(-float(inner))))
    return (2 * Fraction(quantile) / _OUTWARD) ** 2


# Units, and data sets that differ in one

ODD: tuple[Any, ...] = (None, float("nan"), float("inf"), -1e308, 1e308, "oops", 2 + 1j, "", b"x", -0.0)
"""Cells that are missing, impossible, far beyond any bound, or of other types."""

_ODD_SHARE = 0.12
_OWN_SHARE = 0.25
"""Of units made from the user's rows."""

Unit = dict[str, list[Any]]
"""The cells of one unit, by column: one row, or the rows of a person; no row at all is a unit that is not there."""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """The difference of two neighbours: one has the first unit, and the other the second or none."""

    first: Unit | None
    second: Unit | None

    def __str__(self) -> str:
        def text(unit: Unit | None) -> str:
            if unit is None:
                return "no unit"
            rows = zip(*unit.values(), strict=True)
            shown = (", ".join(f"{name}={cell!r}" for name, cell in zip(unit, row, strict=True)) for row in rows)
            return "; ".join(dict.fromkeys(shown))

        return f"{text(self.first)} / {text(self.second)}"


class Units:
    """Draws units of a schema for a definition of neighbours.

    Parameters
    ----------
    schema : Schema
    neighbors : {"add_remove", "replace_one"}
    rng : numpy.random.Generator
    rows : DataFrame, optional
        Public rows whose cells are also tried.
    """

    def __init__(
        self, schema: Schema, neighbors: Neighbors, rng: np.random.Generator, rows: pd.DataFrame | None = None
    ) -> None:
        self.schema, self.neighbors, self.rng = schema, neighbors, rng
        self.size = schema.rows_per_unit
        self._likely = {name: _likely(schema[name]) for name in schema}
        self._own = None if rows is None else {name: rows[name].tolist() for name in schema}

    def cell(self, name: str) -> Any:
        """Draw a cell of a column."""
        if self.rng.random() < _ODD_SHARE:
            return ODD[self.rng.integers(len(ODD))]
        column, likely = self.schema[name], self._likely[name]
        if isinstance(column, Category | Boolean) or self.rng.random() < 0.7:
            return likely[self.rng.integers(len(likely))]
        inner = column.lower + (column.upper - column.lower) * self.rng.random()  # type: ignore[attr-defined]
        return round(inner) if isinstance(column, Integer) else float(inner)

    def draw(self) -> Unit:
        """Draw a unit: rows of extreme cells, one of the user's, or one with a single odd kind of cell."""
        if self._own is not None and self.rng.random() < _OWN_SHARE:
            places = self.rng.integers(len(next(iter(self._own.values()))), size=self.size)
            return {name: [cells[place] for place in places] for name, cells in self._own.items()}
        if self.rng.random() < 0.5:  # all rows alike, which moves sums the furthest
            return {name: [self.cell(name)] * self.size for name in self.schema}
        return {name: [self.cell(name) for _ in range(self.size)] for name in self.schema}

    def corners(self) -> list[Unit]:
        """Units at the lower ends, at the upper ends, and with each odd cell everywhere."""
        ends = [{name: [self._likely[name][place]] * self.size for name in self.schema} for place in (0, 1)]
        return ends + [{name: [odd] * self.size for name in self.schema} for odd in ODD]

    def mutated(self, unit: Unit) -> Unit:
        """Change a cell, in one row or in all of them."""
        name = list(self.schema)[self.rng.integers(len(self.schema))]
        cells, cell = list(unit[name]), self.cell(name)
        if self.rng.random() < 0.5:
            cells = [cell] * self.size
        else:
            cells[self.rng.integers(self.size)] = cell
        return {**unit, name: cells}


def _likely(column: Any) -> list[Any]:
    """Cells at and next to the ends of a column."""
    if isinstance(column, Boolean):
        return [False, True]
    if isinstance(column, Category):
        return list(column.levels)
    lower, upper = column.lower, column.upper
    if isinstance(column, Integer):
        return [lower, upper, lower - 1, upper + 1, str(upper)]
    return [lower, upper, float(np.nextafter(lower, upper)), float(np.nextafter(upper, np.inf)), str(upper)]


def frame_of(base: pd.DataFrame, unit: Unit | None, schema: Schema, place: int | None = None) -> pd.DataFrame:
    """Return the rows with a unit inserted at a position; each column has the storage of its cells."""
    place = len(base) if place is None else place
    found = {}
    for name in schema:
        cells = base[name].tolist()
        if unit is not None:
            cells[place:place] = unit[name]
        try:
            found[name] = pd.Series(cells)
        except Exception:  # cells that pandas finds no storage for
            found[name] = pd.Series(cells, dtype=object)
    if schema.people is not None:
        ids = base[schema.people.id].tolist()
        if unit is not None:
            ids[place:place] = ["the unit"] * schema.rows_per_unit
        found[schema.people.id] = pd.Series(ids, dtype=object)
    return pd.DataFrame(found)


def source_of(frame: Any, schema: Schema) -> Table:
    """Open rows as the kernel does, after bounding contributions of people."""
    source = open_table(frame)
    return source if schema.people is None else KeptSource(source, schema)


def sums_of(rows: Any, frame: Any, schema: Schema) -> list[int]:
    """Return the exact sums of a data set."""
    return exact_sums(rows, source_of(frame, schema), threads=1)


# The question, and its run

_ROWS, _MORE_ROWS = 60, 600
"""Rows that neighbours share; more where so few cannot be dealt into blocks."""


class RecordedDraws(PrivateDraws):
    """The real draws of a run, recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.laws: list[NoiseLaw] = []
        self.drawn: list[list[int]] = []
        self.dealt: list[Places] = []

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise."""
        self.laws.append(law)
        self.drawn.append(super().noise(law))
        return self.drawn[-1]

    def labels(self, size: int, labels: int) -> Places:
        """Draw labels."""
        self.dealt.append(super().labels(size, labels))
        return self.dealt[-1]


@dataclass(frozen=True, eq=False, slots=True)
class AuditedRun:
    """The stages of a real run, each with its share of the privacy budget.

    Attributes
    ----------
    plan : Plan
        The plan that is charged.
    stages : tuple of PricedStage
        Adaptive stages as the run asked for them after its earlier releases.
    shares : tuple of Stated
        The privacy loss that each may have, derived anew.
    release : Release
    draws : RecordedDraws
    """

    plan: Plan
    stages: tuple[PricedStage, ...]
    shares: tuple[Stated, ...]
    release: Release
    draws: RecordedDraws


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
        """The stated guarantee."""
        return stated_amount(self.privacy)

    def bound(self, frame: pd.DataFrame) -> Procedure:
        """Bind the question to rows as if they were confidential, with a ledger whose budget covers one run."""
        ledger = Ledger.in_memory(self.privacy, neighbors=self.neighbors)
        return self.procedure.bind(PrivateData(frame, self.schema, ledger))

    @property
    def context(self) -> Context:
        """What is public about a run on the base."""
        public = self.neighbors == "replace_one" and self.schema.people is None
        return Context(self.schema, self.neighbors, self.privacy, len(self.base) if public else None)

    def resolved(self) -> Procedure:
        """Return the question bound to the base, with every "auto" replaced."""
        return self.bound(self.base).resolve(self.context)

    def recorded(self) -> tuple[Release, RecordedDraws]:
        """Run the question on the base through the kernel, and record the draws."""
        draws = RecordedDraws()

        def source() -> Any:
            return source_of(self.base, self.schema).opened()

        return run(self.bound(self.base), self.context, source=source, draws=draws, charge=lambda _: "audit"), draws

    def audited_run(self) -> AuditedRun:
        """Run the question once, and compute the cost of each stage as that run did."""
        context, question = self.context, self.resolved()
        plan = planned(question, context, rehearse=True)
        release, draws = self.recorded()
        stages = [plan.next_stage(question, release.stages[:place]) for place in range(len(plan.slots))]
        shares = tuple(self.stated.share(Fraction(slot.share)) for slot in question.slots(context))
        return AuditedRun(plan, tuple(stages), shares, release, draws)


def setting_of(
    procedure: object,
    schema: Schema | None,
    privacy: Privacy,
    neighbors: Neighbors | None,
    rows: object,
    rng: np.random.Generator,
) -> Setting:
    """Check the arguments of an audit without reading any confidential row."""
    if not isinstance(procedure, Procedure):
        right = "a question, such as dpi.mean(...) or a Procedure of your own"
        raise OptionError("procedure", type_of(procedure), right)
    if not isinstance(privacy, Privacy):
        right = "an amount such as ZCDP(0.1), PureDP(1.0), GDP(0.5), ApproxDP(1.0, 1e-6)"
        raise OptionError("privacy", type_of(privacy), right)
    source = procedure.source
    if isinstance(source, PrivateData) and rows is None:
        right = "one without data, or rows= of public rows: an audit shows what it is given"
        raise OptionError("procedure", "a question that is bound to confidential rows", right)
    if isinstance(rows, PrivateData):
        raise OptionError("rows", "PrivateData", "a DataFrame of public rows: an audit shows what it is given")
    if rows is not None and not isinstance(rows, pd.DataFrame):
        raise OptionError("rows", type_of(rows), "a pandas DataFrame of public rows, or None")
    known = source if isinstance(source, PrivateData | PublicData) else None
    schema, neighbors = public_facts(known, schema, neighbors, "a procedure that is bound to public data")
    setting = Setting(replace(procedure, source=None), schema, neighbors, privacy, _base(schema, rows, rng, _ROWS))
    if rows is None and isinstance(served(setting, privacy), str):  # too few rows for what is asked, it may be
        more = replace(setting, base=_base(schema, rows, rng, _MORE_ROWS))
        return setting if isinstance(served(more, privacy), str) else more
    return setting


def _base(schema: Schema, rows: pd.DataFrame | None, rng: np.random.Generator, size: int) -> pd.DataFrame:
    """Return the rows that the neighbours share, up to a maximum."""
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
    """Return the setting with other privacy parameters, or the reason why they cannot be used."""
    other = replace(setting, privacy=privacy)
    try:
        planned(other.resolved(), other.context)
    except DPInferError as error:
        return f"not tried at {privacy}: {str(error).splitlines()[0][:160]}"
    return other


# Hill climbing on exact integers

_FIRST = 120
_ROUNDS, _MUTANTS = 8, 24
_MOST_NUMBERS = 3_000_000
"""Numbers held while pairs are compared."""


@dataclass(frozen=True, eq=False, slots=True)
class Worst:
    """The pair with the largest privacy loss.

    Attributes
    ----------
    pair : Pair or None
        None if blocks changed.
    change : list of int
        Change of the exact sums, from the second to the first.
    amount : Fraction, or infinite
        The privacy loss.
    tried : int
        Number of units and pairs compared.
    exact : list of int
        The exact sums of the second.
    """

    pair: Pair | None
    change: list[int]
    amount: Fraction | float
    tried: int
    exact: list[int]


def added(priced: PricedStage, unit: Unit | None) -> list[int]:
    """Return what a unit adds to the exact sums of a stage, or to one resampled sum at weight 1."""
    rows, measure = priced.rows, priced.stage.measure
    if unit is None:
        widths = {Resampled: "width", Largest: "entries", Above: "entries"}
        return [0] * int(getattr(rows, widths[type(measure)]) if type(measure) in widths else len(priced.names))
    size = len(next(iter(unit.values())))
    columns = {name: np.empty(size, dtype=object) for name in unit}
    for name, cells in unit.items():
        columns[name][:] = cells
    persons = np.zeros(size, dtype=np.int64) if rows.schema.people is not None else None
    totals = rows.add(Batch(columns, size, persons=persons))[0].tolist()
    found: list[int] = totals if isinstance(measure, Resampled) else rows.finish(totals)
    return found


def worst_units(
    priced: PricedStage,
    units: Units,
    *,
    amount: Callable[[list[int], PricedStage], Fraction | float] = privacy_loss,
    search: Callable[[Array, PricedStage], Array] = losses,
) -> Worst:
    """Search for the pair of units with the largest privacy loss.

    Under add_remove one of the two is absent. The search uses floats; the final pair is measured in exact arithmetic.
    """
    size = int(np.clip(_MOST_NUMBERS // max(len(added(priced, None)), 1), 16, _FIRST))
    corners = units.corners()[:size]
    drawn: list[Unit | None] = [None, *corners, *(units.draw() for _ in range(max(size - len(corners), 0)))]
    found = [added(priced, unit) for unit in drawn]
    values = np.array(found, dtype=np.float64)
    if units.neighbors == "add_remove":
        first, second, tried = int(np.argmax(search(values, priced))), 0, len(found)
    else:
        first, second, tried, top = 1, 1, len(found) * (len(found) - 1) // 2, -1.0
        start = 0 if priced.rows.schema.people is not None else 1  # a person may have no row; a row is always there
        for place in range(start, len(found)):
            apart = search(values[place] - values[start:], priced)
            if apart.max() > top:
                first, second, top = place, start + int(np.argmax(apart)), float(apart.max())
    pair = [(drawn[first], found[first]), (drawn[second], found[second])]
    for _ in range(_ROUNDS):  # change cells of either unit, and take what gives more away
        tried += 2 * _MUTANTS
        for which in (0, 1):
            (unit, mine), (_, other) = pair[which], pair[1 - which]
            if unit is None:
                continue
            mutants = [units.mutated(unit) for _ in range(_MUTANTS)]
            sums = [added(priced, mutant) for mutant in mutants]
            moved = np.array([mine, *sums], dtype=np.float64) - np.array(other, dtype=np.float64)
            place = int(np.argmax(search(moved, priced)))
            if place:
                pair[which] = mutants[place - 1], sums[place - 1]
    (one, sums_of_one), (two, rest) = pair
    change = [a - b for a, b in zip(sums_of_one, rest, strict=True)]
    return Worst(Pair(one, two), change, amount(change, priced), tried, rest)


def worst_in_data(priced: PricedStage, worst: Worst, base: pd.DataFrame) -> Worst:
    """Measure a pair within whole data sets, and return the larger of the two changes."""
    assert worst.pair is not None
    found, schema = worst, priced.rows.schema
    for place in (0, len(base) // 2, len(base)):
        first, second = (
            sums_of(priced.rows, frame_of(base, unit, schema, place), schema)
            for unit in (worst.pair.first, worst.pair.second)
        )
        change = [a - b for a, b in zip(first, second, strict=True)]
        amount = privacy_loss(change, priced)
        if amount > found.amount or found is worst:
            found = Worst(worst.pair, change, max(amount, worst.amount), worst.tried, second)
    return found


def worst_blocks(priced: PricedStage, rng: np.random.Generator) -> Worst:
    """Search for the fits of one block that change the sums over blocks most.

    A fit may be anything: outside the region, at its corners, or NaN.
    """
    rows = priced.rows
    assert isinstance(rows, BlockSum)
    region, count, size = rows.region, 64, len(rows.region.names)
    others = region.center + 0.3 * region.radius * rng.uniform(-1, 1, (3, 3, size))
    fits = region.center + 3 * region.radius * rng.uniform(-1, 1, (count, 3, size))
    fits[: count // 4] = region.center + region.radius * rng.choice([-1e9, -1, 0, 1, 1e9], (count // 4, 3, size))
    fits[count // 4 : count // 2] = fits[count // 4 : count // 2, :1]  # halves that agree with their block
    fits[-6:-3], fits[-3:] = np.nan, np.inf
    values_of = [block_values(np.concatenate([fit[None], others]), region) for fit in fits]
    found = [rows.add(values)[0].tolist() for values in values_of]  # type: ignore[arg-type]
    values = np.array(found, dtype=np.float64)
    scales = np.asarray(priced.law.scales)
    scaled = values / np.where(scales > 0, scales, 1e-300)
    apart = cdist(scaled, scaled, "cityblock" if priced.law.family == "laplace" else "sqeuclidean")
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    change = [a - b for a, b in zip(found[first], found[second], strict=True)]
    return Worst(None, change, privacy_loss(change, priced), count * (count - 1) // 2, found[second])
