"""A measurement: everything that will be done to the rows at a price, all of it public, before it is done, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.kernel.plan import Plan, planned
from dpinfer.kernel.rows.blocks import BlockMoments, BlockSum, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, CountedSum, PersonSum, QuerySum
from dpinfer.kernel.rows.iterations import RoundCounts, RoundSum
from dpinfer.kernel.rows.marginals import ClassCounts, ColumnCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.stage import Above, Context
from dpinfer.release.laws import CHOICES, NoiseLaw
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import People


# What is measured


def measured_in_words(priced: PricedStage) -> str:
    """Say what a priced stage measures."""
    measure = priced.stage.measure
    if not isinstance(measure, Above):
        return measures(priced.rows)
    above = "the first that does" if measure.answers == 1 else f"the first {measure.answers:,} that do"
    count = len(measure.names)
    return (
        f"whether each of {count:,} sum{'' if count == 1 else 's'}, in turn, reaches its threshold, stopping after "
        f"{above}; the sums are not released"
    )


def measures(rows: Any) -> str:
    """Say what a row sum adds up."""
    return _of_type(_MEASURED, rows)(rows)


def _of_type(told: dict[type, Callable[..., str]], rows: object) -> Callable[..., str]:
    return next(told[kind] for kind in type(rows).__mro__ if kind in told)


def _where(rows: CellSum | MarginalSum) -> str:
    return "" if rows.features.where is None else f", where {rows.features.where.text}"


def _cells(rows: CellSum) -> str:
    where = (f" in each of {rows.size:,} cells" if rows.size > 1 else "") + _where(rows)
    if rows.counts_only:
        return "the number of rows" + where
    return f"{rows.width} sum{'s' if rows.width > 1 else ''}{where}: {', '.join(rows.summed)}"


def _marginals(rows: MarginalSum) -> str:
    what = "contrasts" if rows.contrasts else "counts"
    several = f"{len(rows.subsets):,} marginals" if len(rows.subsets) > 1 else "one marginal"
    return f"{len(rows.names):,} {what} of the cells of {several} of {len(rows.axes):,} columns{_where(rows)}"


def _octaves(rows: OctaveRows) -> str:
    listed = ", ".join(f"{name} ({size:,})" for name, size in zip(rows.schema, rows.sizes, strict=True))
    return f"the number of rows in signed octaves of {listed}"


def _tree(rows: TreeSum) -> str:
    groups = f" in each of {rows.size:,} groups" if rows.groups else ""
    return f"the number of rows in every node of a tree over {rows.name} with {rows.leaves:,} leaves{groups}"


def _products(rows: GramSum) -> str:
    names = rows.features.basis.names
    products = len(names) * (len(names) + 1) // 2
    return f"{products} sums of products of {len(names)} bounded features: {', '.join(names)}"


def _round(rows: RoundSum) -> str:
    names = rows.features.basis.names
    clipped = " (each unit's contribution clipped at norm {:.6g})"
    parts = ", ".join(one.name + ("" if one.cut is None else clipped.format(one.cut)) for one in rows.terms)
    return f"Newton iteration: {parts}, in {rows.frame.size} coordinates of {len(names)} features: {', '.join(names)}"


def _binned(rows: RoundCounts) -> str:
    counted: dict[str, list[str]] = {"rows": [], "people": []}
    for one in rows.places:
        counted["people" if one.of == "person" else "rows"].append(f"{one.name} ({one.size:,} bins)")
    return "; ".join(f"histograms of {units} by {', '.join(bins)}" for units, bins in counted.items() if bins)


def _replicates(rows: ReplicateSum) -> str:
    kind = "products of features" if rows.products else "features"
    return f"{rows.width} sums of {kind}, {rows.replicates} times: {', '.join(rows.labels)}"


_MEASURED: dict[type, Callable[..., str]] = {
    object: lambda rows: ", ".join(rows.names),
    OctaveCounts: lambda _: "a noisy histogram of the scale of the estimates",
    PlaceCounts: lambda _: "a noisy histogram of the location of the estimates",
    BlockMoments: lambda _: (
        "sums and products of the estimates, and counts of failed blocks and of blocks moved into the region"
    ),
    CellSum: _cells,
    QuerySum: lambda rows: f"{len(rows.names):,} linear combinations of the counts of {rows.cells.size:,} cells",
    MarginalSum: _marginals,
    ClassCounts: lambda _: (
        "the number of valid, clamped, missing and impossible cells of each column, and of rows without a bad cell"
    ),
    OctaveRows: _octaves,
    TreeSum: _tree,
    PointRows: lambda rows: f"quantiles of {rows.tree.name}, chosen by the exponential mechanism",
    GramSum: _products,
    RoundSum: _round,
    RoundCounts: _binned,
    ReplicateSum: _replicates,
    ScoreSum: lambda rows: (
        f"scores of {len(rows.scores):,} candidates: only the candidate with the largest noisy score is released"
    ),
}


# What one unit changes


def bound_in_words(priced: PricedStage, context: Context) -> str:  # noqa: PLR0911  (a return for each kind)
    """Say what the bound of a priced stage is of."""
    unit, bound, rows = context.schema.unit, priced.bound, priced.rows
    if isinstance(rows, PointRows):
        return f"{unit} changes the rank of a point by at most {int(bound):,}"
    if isinstance(rows, ScoreSum):
        done = "adding or removing" if context.neighbors == "add_remove" else "replacing"
        if isinstance(priced.stage.measure, Above):
            way = ", all in one direction" if rows.monotone(context.neighbors) else ""
            return f"{done} {unit} changes each sum by at most {int(bound) * rows.step:.6g}{way}"
        return f"{done} {unit} changes scores by amounts that differ by at most {int(bound) * rows.step:.6g}"
    if priced.law.family == "tulap":
        return f"{unit} changes the count by at most {int(bound):,}"
    norm: Norm = "l1" if priced.law.family == "laplace" else "l2"
    kind = "L2" if norm == "l2" else "L1"
    if isinstance(rows, GramSum):
        twice = " (off-diagonal entries counted twice)" if norm == "l2" else ""
        sizes = [f"{float(part) / UNIT**2:.6g}" for part in rows.part_changes(context.neighbors, norm)]
        if rows.split:
            return f"{kind} sensitivity of X'X, X'y, y'y{twice} at most {', '.join(sizes[:3])}"
        return f"{kind} sensitivity{twice} at most {sizes[0]} in units of the scaled features"
    return _of_type(_MOVED, rows)(rows, bound, context.neighbors, f"{kind} sensitivity")


def _cells_moved(rows: CellSum, bound: Fraction, neighbors: Neighbors, change: str) -> str:
    moved = "; a row that changes cells affects both" if neighbors == "replace_one" and rows.size > 1 else ""
    of = "rows" if rows.counts_only else "the scaled features, each divided by its relative noise"
    if isinstance(rows, PersonSum):
        of = f"{rows.most:,} rows at their bounds, each divided by its relative noise"
    return f"{change} of all sums at most {float(bound / rows.unit):.6g} in units of {of}{moved}"


def _marginals_moved(rows: MarginalSum, bound: Fraction, neighbors: Neighbors, change: str) -> str:
    what = "contrasts scaled to unit norm" if rows.contrasts else "counts"
    moved = "; a replaced row leaves one cell and enters another" if neighbors == "replace_one" else ""
    told = f"{change} of all of them, each divided by its relative noise, at most {float(bound):.6g}"
    return f"a row is in one cell of each marginal{moved}: {what}, {told}"


def _columns_moved(rows: ColumnCounts, bound: Fraction, neighbors: Neighbors, change: str) -> str:
    columns = f"each of {len(rows.schema):,} columns" if len(rows.schema) > 1 else "one column"
    also = ", and among the rows kept" if rows.counts_rows else ""
    moved = "; a replaced row leaves one class and enters another" if neighbors == "replace_one" else ""
    return f"a row counts once in {columns}{also}{moved}: {change} of all counts at most {float(bound):.6g}"


def _tree_moved(rows: TreeSum, bound: Fraction, _: Neighbors, change: str) -> str:
    levels = f"each of its rows is counted once in each of {rows.depth + 1} levels"
    return f"{rows.schema.unit}; {levels}: {change} at most {float(bound):.6g}"


def _replicates_moved(rows: ReplicateSum, bound: Fraction, neighbors: Neighbors, _: str) -> str:
    moved = "adding one unit" if neighbors == "add_remove" else "replacing one unit"
    scaled = " (off-diagonal products counted twice)" if rows.products else ""
    return (
        f"{moved} at weight 1 changes the sums by at most {float(bound) / rows.unit:.6g} in L2 norm, in units of the "
        f"scaled features{scaled}"
    )


_MOVED: dict[type, Callable[..., str]] = {
    object: lambda _, bound, __, change: f"{change} of all sums at most {float(bound):.6g}",
    BlockSum: lambda rows, *_: (
        f"{rows.schema.unit} changes the estimate of one block, by at most the diameter of the declared region"
    ),
    CellSum: _cells_moved,
    QuerySum: lambda rows, bound, _, change: f"{change} of all queries at most {float(bound) * rows.step:.6g}",
    MarginalSum: _marginals_moved,
    ColumnCounts: _columns_moved,
    TreeSum: _tree_moved,
    ReplicateSum: _replicates_moved,
}


# Which noise it gets


def noise_in_words(priced: PricedStage) -> str:
    """Say which noise a priced stage gets."""
    law = priced.law
    if law.family == "above":
        threshold, own = law.shared * priced.steps[0], law.scales[0] * priced.steps[0]
        return (
            f"discrete Laplace: one draw for all thresholds, scale {threshold:.6g}, and one for each sum, scale "
            f"{own:.6g}, in units of {_unit_of(priced.rows)}; not released"
        )
    noisy = [scale * step for scale, step in zip(law.scales, priced.steps, strict=True) if scale > 0]
    spread = " to ".join(dict.fromkeys(f"{one:.6g}" for one in (min(noisy), max(noisy)))) if noisy else "none"
    family = "discrete Gaussian" if law.family == "gaussian" else "discrete Laplace"
    if law.family == "tulap":
        family = "discrete Laplace plus a uniform fraction (Tulap)"
    elif law.family in CHOICES:
        family = f"{law.family.capitalize()}, added to scores that are not released"
    several = f", the average of {law.draws} draws" if law.draws > 1 else ""
    return f"{family}{several}, scale {spread} in units of {_unit_of(priced.rows)}"


def _unit_of(rows: Any) -> str:
    """Return what the noise scale is in units of."""
    if isinstance(rows, BlockSum):
        held = isinstance(rows, BlockMoments)
        return "blocks, and of the ball that bounds their estimates" if held else "blocks"
    if isinstance(rows, PersonSum):
        return "a person with all rows at their bounds"
    if isinstance(rows, RoundCounts) and any(one.of == "person" for one in rows.places):
        return "rows or people"
    if isinstance(rows, CountedSum | RoundCounts | ColumnCounts) or (isinstance(rows, CellSum) and rows.counts_only):
        return "rows"
    others = {ScoreSum: "the scores", PointRows: "ranks", RoundSum: "rows at their bounds", MarginalSum: "rows"}
    return others.get(type(rows), "the scaled features")


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement(Plan):
    """What a procedure would do to rows at a price, and what it costs: for people and for studies; nothing runs it.

    Attributes
    ----------
    kind : str
        Name of the procedure's releases.
    text : str
        The question in words.
    question : mapping
        What a release stores of it.
    context : Context
    stages : tuple of PricedStage
        Adaptive ones as they would be on rows spread evenly over the declared bounds.
    slots : tuple of Slot
    costs : tuple of Cost
        What is set aside for each stage; an adaptive one that would cost more is refused.
    cost : Cost
        Of all stages, charged before the first row is read.
    blocks : Blocks, optional
        Where rows are dealt into secret ones: how, and what is fitted to each.
    """

    @property
    def neighbors(self) -> Neighbors:
        """The relation that is protected."""
        return self.context.neighbors

    @property
    def people(self) -> People | None:
        """Whose rows are protected together; None where the unit of protection is one row."""
        return self.context.schema.people

    @property
    def _sums(self) -> list[PricedStage]:
        """Stages that release noisy numbers; of a mere choice the choice."""
        return [stage for stage in self.stages if stage.law.family not in CHOICES] or list(self.stages)

    @property
    def rows(self) -> Any:
        """The row sum of the last stage."""
        return self._sums[-1].rows

    @property
    def names(self) -> tuple[str, ...]:
        """What each released number is."""
        return tuple(name for stage in self._sums for name in stage.names)

    @property
    def law(self) -> NoiseLaw:
        """Noise of every released number."""
        first = self._sums[0].law
        scales = tuple(scale for stage in self._sums for scale in stage.law.scales)
        return NoiseLaw(first.family, scales, first.draws, first.shared)

    @property
    def steps(self) -> tuple[float, ...]:
        """Size of one integer step of every released number."""
        return tuple(step for stage in self._sums for step in stage.steps)

    @property
    def multiplier(self) -> int:
        """What the exact sums of the last stage are multiplied by before the noise is added."""
        return self._sums[-1].multiplier

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the sums that are public and therefore carry no noise."""
        return tuple(name for name, scale in zip(self.names, self.law.scales, strict=True) if scale == 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({name for stage in self.stages for name in stage.rows.columns}))

    def describe(self) -> str:
        """Say what will be measured, how it is bounded, what noise it gets and what it costs."""
        return "\n".join(f"{name:<12} {told}" for name, told in self.facts)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What will be measured, how it is bounded, what noise it gets and what it costs, by name."""
        several, people = len(self.stages) > 1, self.people
        told = [("measures", self.text if several else measured_in_words(self.stages[0]))]
        told += [("reads", ", ".join(self.columns) or "no column"), ("neighbours", self.neighbors)]
        if people is not None:
            most = f"at most {people.max_rows:,} row{'s' if people.max_rows > 1 else ''} each"
            told.append(("unit", f"one person, identified by {people.id!r}: {most}, chosen by a public hash"))
        for place, (stage, slot) in enumerate(zip(self.stages, self.slots, strict=True), 1):
            if several:
                chosen = ", adaptive: uses earlier stages" if slot.adaptive else ""
                share = f"({100 * float(slot.share):.3g}% of the privacy budget{chosen})"
                told.append((f"stage {place}", f"{measured_in_words(stage)} {share}"))
            told += [("bound", self.bound_of(stage)), ("noise", noise_in_words(stage))]
        told += [("exact", ", ".join(self.exact) or "nothing"), ("guarantee", self.cost.describe())]
        return tuple(told)

    def bound_of(self, stage: PricedStage) -> str:
        """Say what one unit changes in a stage."""
        unit = "" if self.people is None else f"{self.people.unit}: "
        return f"{unit}{bound_in_words(stage, self.context)}"


def price_procedure(procedure: Any, context: Context) -> Measurement:
    """Say what a procedure would do at a price, the adaptive stages as rehearsed on public rows.

    Raises
    ------
    DPInferError
        If the procedure cannot be measured at this price, for a public reason.
    """
    plan = planned(procedure, context)
    return Measurement(**vars(plan))
