"""A stage as the kernel keeps it: rebuilt from plain values, so that what is priced is what is summed.

A procedure keeps the objects that it made, and may change their arrays and caches between the price and the rows. So
nothing of them is used: every part of a stage is checked to be of one of the kernel's own types, and is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.blocks import MOST_BLOCKS, BlockMoments, Blocks, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.iterations import Bins, Interpolant, RoundCounts, RoundFrame, RoundSum, Term
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.stage import Above, Largest, Noise, Place, Resampled, Stage, Sum
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP
from dpinfer.schema.axis_types import BinsAxis, ConditionAxis, LevelsAxis, MirroredAxis
from dpinfer.schema.columns import Boolean, Category, Date, Integer, Real
from dpinfer.schema.expression import Expression
from dpinfer.schema.grid import UNIT, Basis, Block, Curve
from dpinfer.schema.nodes import ARGUMENTS, Node
from dpinfer.schema.region import Region
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.privacy.units import Privacy


__all__ = ["check_columns", "dealt_blocks", "own_fraction", "own_price", "own_schema", "sealed_blocks", "sealed_stage"]

_PLAIN = frozenset({type(None), bool, int, float, str})

_RECORDS = frozenset(
    {Sum, Largest, Above, Place, Resampled, Noise}
    | {CellSum, PersonSum, QuerySum, TreeSum, PointRows, GramSum, ScoreSum, ReplicateSum}
    | {OctaveCounts, PlaceCounts, BlockMoments}
    | {ClassCounts, OctaveRows, MarginalSum}
    | {RoundSum, RoundCounts, RoundFrame, Term, Bins, Interpolant}
    | {Features, RowClip, Basis, Block, Curve, Expression, Region}
    | {LevelsAxis, ConditionAxis, BinsAxis, MirroredAxis}
)

_ARRAYS = {
    Block: {"codes"},
    Curve: {"edges", "lower", "upper"},
    Region: {"center"},
    QuerySum: {"matrix"},
    RoundFrame: {"maps"},
    Interpolant: {"values"},
    Bins: {"cuts"},
}
"""Where a record holds an array; elsewhere one could tell rows apart by their place."""

_COLUMNS = frozenset({Real, Integer, Boolean, Category, Date})


def sealed_stage(stage: Stage, schema: Schema) -> Stage:
    """Return the same stage made of new parts, each of the kernel's own types.

    A stage reads columns of the data's schema, as it declares them, and no others. Refused is a part of another type, a
    column declared differently, and a row sum that would not keep its bound.
    """
    seal = _Seal(schema)
    measure = seal(stage.measure)
    check = _CHECKS.get(type(measure.rows))
    if check is not None:
        check(measure.rows)
    return Stage(measure, seal(stage.noise), _settings(stage.settings))


def _settings(settings: object) -> dict[str, Any]:
    """Return settings as a release stores them; what fails to be written is found before the charge."""
    try:
        given = dict(settings) if isinstance(settings, Mapping) else None
        stored = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        given, stored = None, None
    if not isinstance(stored, dict) or stored != given:
        raise OptionError("settings", type_of(settings), "a mapping that JSON keeps as it is: lists, not tuples")
    return stored


def own_schema(schema: Schema) -> Schema:
    """Return the same schema made of new columns of plain values, for the kernel or to be handed out."""
    check_columns(schema)
    return Schema.from_json(schema.to_json())


def own_price(privacy: Privacy) -> Privacy:
    """Return the same amount of privacy made of plain numbers."""
    kind = type(privacy)
    if kind not in (PureDP, ZCDP, GDP, ApproxDP):  # not a subclass, whose amount may change
        raise OptionError("privacy", privacy, "an amount such as ZCDP(0.1), PureDP(1.0), GDP(0.5), ApproxDP(1.0, 1e-6)")
    parts = {f.name: getattr(privacy, f.name) for f in fields(kind)}
    if not all(type(part) in (int, float) for part in parts.values()):
        raise OptionError("privacy", kind.__name__, "an amount of plain numbers")
    return kind(**parts)


def sealed_blocks(blocks: Blocks | None, schema: Schema) -> Blocks | None:
    """Return the same blocks made of new parts; refuse as `sealed_stage` does.

    An estimator of the library's own is made anew, too: it sees rows in this process. Any other is kept as it is.
    """
    if blocks is None:
        return None
    if type(blocks) is not Blocks:
        raise OptionError("units", type_of(blocks), "Blocks, or None")
    seal = _Seal(schema)
    parts = {f.name: getattr(blocks, f.name) for f in fields(Blocks)}
    made = {name: part if name == "estimator" else seal(part) for name, part in parts.items()}
    made["own"] = blocks.trusted
    if made["own"]:
        made["estimator"] = type(blocks.estimator).remade(blocks.estimator, schema)  # type: ignore[attr-defined]
    if type(made["region"]) is not Region:
        raise OptionError("region", type_of(made["region"]), "a Region")
    _check_region(made["region"])
    if made["count"] is not None:
        _check_dealt(made["count"])
    if made["most"] is not None and not (type(made["most"]) is int and made["most"] >= 2):
        raise OptionError("most", type_of(made["most"]), "a whole number of rows of a block, 2 or more, or None")
    return Blocks(**made)


def dealt_blocks(blocks: Blocks, count: object) -> Blocks:
    """Return sealed blocks of a number that was not known when they were sealed."""
    _check_dealt(count)
    return replace(blocks, count=count)  # type: ignore[arg-type]


def _check_dealt(count: object) -> None:
    if type(count) is not int or not 1 <= count <= MOST_BLOCKS:
        raise OptionError("count", type_of(count), f"a whole number of blocks from 1 to {MOST_BLOCKS:,}")


def check_columns(schema: Schema) -> None:
    """Refuse a schema, or columns, that are not the library's own: their code would see every cell."""
    for name in schema if type(schema) is Schema else ():
        if type(schema[name]) not in _COLUMNS:
            raise OptionError(name, type_of(schema[name]), "Real, Integer, Boolean, Category or Date")
    if type(schema) is not Schema:
        raise OptionError("schema", type_of(schema), "a dpinfer Schema")


class _Seal:
    """Rebuilds values, for data of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[int, tuple[Schema, Schema]] = {}

    def __call__(self, value: Any) -> Any:
        """Rebuild a value and all parts of it."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in (tuple, list):
            return tuple(self(one) for one in value)
        if kind in _RECORDS:
            return self._record(value)
        if kind is Schema:
            return self._columns_of(value)
        if kind in _COPIES:
            return _COPIES[kind](value)
        if issubclass(kind, np.generic):
            return self(value.item())
        raise OptionError("stage", kind.__name__, "parts of the kernel's own types, and plain numbers and texts")

    def _record(self, value: Any) -> Any:
        """Rebuild a record: with arrays only where it holds them, and with what `_PARTS` demands."""
        kind = type(value)
        parts = {f.name: self(getattr(value, f.name)) for f in fields(kind) if f.init}
        for name, part in parts.items():
            if isinstance(part, np.ndarray) and name not in _ARRAYS.get(kind, ()):
                raise OptionError(name, "array", "a plain number, text or part of the kernel's own types")
        made = kind(**parts)
        if kind in _PARTS:
            _PARTS[kind](made)
        return made

    def _columns_of(self, schema: Schema) -> Schema:
        """Return columns of the data by the names of a schema that declares them alike."""
        if id(schema) not in self._known:
            if schema.people != self._schema.people:
                raise OptionError("schema", schema.unit, f"that of the data, whose unit is {self._schema.unit}")
            for name in schema:
                if name not in self._schema or schema[name] != self._schema[name]:
                    raise OptionError("schema", name, f"columns as the data declare them: {', '.join(self._schema)}")
            self._known[id(schema)] = schema, self._schema.select(list(schema))
        return self._known[id(schema)][1]


def _remade(node: Node) -> Node:
    """Return a tree of operations made anew, of which every part is plain and has the arguments that it takes."""
    operation, arguments, name, value = node.operation, node.arguments, node.name, node.value
    right = type(operation) is str and type(name) is str and type(value) in (int, float)
    right = right and type(arguments) is tuple and all(type(part) is Node for part in arguments)
    if not right or ARGUMENTS.get(operation) != len(arguments):
        raise OptionError("node", type_of(value), "an expression that was compiled from a text")
    return Node(operation, tuple(_remade(part) for part in arguments), name, value)


def own_fraction(value: Fraction | int) -> Fraction:
    """Return the same fraction made of plain whole numbers."""
    parts = value.numerator, value.denominator
    if not all(type(part) is int for part in parts):
        raise OptionError("fraction", type_of(value), "a fraction of whole numbers")
    return Fraction(*parts)


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that cannot be changed."""
    if array.dtype.kind not in "biuf":
        raise OptionError("array", str(array.dtype), "numbers")
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


_COPIES: dict[type, Callable[[Any], Any]] = {
    np.ndarray: _frozen,
    Node: _remade,
    Fraction: own_fraction,
    dict: dict,  # with the next, the canonical form of an expression: no row meets it
    frozenset: frozenset,
}

# What the bounds of a row sum take for granted


def _check_expression(expression: Expression) -> None:
    """Refuse bounds that are none, and columns other than those that the tree reads."""
    ends = expression.lower, expression.upper
    if not all(type(end) in (int, float) for end in ends) or not -np.inf < ends[0] <= ends[1] < np.inf:
        raise OptionError("expression", expression.text, "finite bounds in order")
    if type(expression.boolean) is not bool or {*expression.columns} != _columns_read(expression.node):
        raise OptionError("expression", expression.text, "the columns that it reads, and whether it is 0 or 1")


def _columns_read(node: Node) -> set[str]:
    mine = {node.name} if node.operation in ("column", "level") else set()
    return mine.union(*(_columns_read(part) for part in node.arguments))


def _check_block(block: Block) -> None:
    """Refuse a numeric part whose scale would turn its bounds round."""
    if not all(type(one) in (int, float) and np.isfinite(one) for one in (block.center, block.half)) or block.half <= 0:
        raise OptionError("block", type_of(block.half), "a finite centre and a positive half width")


def _check_region(region: Region) -> None:
    try:
        Region.from_dict(region.to_dict())
    except (KeyError, TypeError, ValueError):
        raise OptionError("region", type_of(region), "balls of positive radius around a finite centre") from None


_PARTS: dict[type, Callable[[Any], None]] = {
    Expression: _check_expression,
    Block: _check_block,
    Region: _check_region,
}
"""What is checked of every part, once it is made anew."""


def _check_features(features: Features) -> None:
    """Refuse features of which the first is not the constant, or whose codes are not those of their factors' levels."""
    blocks = features.basis.blocks
    if not blocks or not blocks[0].constant or blocks[0].factors:
        raise OptionError("basis", "no constant", "features of which the first is the constant 1")
    for block in blocks:
        codes, schema = block.codes, features.schema
        rows = int(np.prod([len(schema[name].level_texts) for name in block.factors], dtype=np.int64))
        right = codes.dtype == np.int64 and codes.ndim == 2 and codes.shape[0] == rows and codes.shape[1] > 0
        right = right and block.shape == tuple(len(schema[name].level_texts) for name in block.factors)
        right = right and bool((np.abs(codes) <= UNIT).all())
        if not right or not (block.factors or codes.tolist() == [[UNIT]]):
            raise OptionError("codes", type_of(codes), "whole numbers of the grid, a row for each level")


def _check_plain(features: Features) -> None:
    """Refuse features that lie on no curve: bounds in cells are of numeric ones that keep their size."""
    _check_features(features)
    if features.clip is not None or any(block.width != 1 or block.factors for block in features.basis.blocks):
        raise OptionError("features", "factors or row_norm=", "numeric features, without row_norm=, in cells")
    for curve in features.basis.curves:
        _check_curve(curve, features.basis)


def _check_curve(curve: Curve, basis: Basis) -> None:
    """Refuse boxes that are none: of other features or of the constant, reversed, or beyond what is clipped anyway."""
    right = type(curve) is Curve and type(curve.places) is tuple and curve.column in basis.columns
    right = right and all(type(place) is int and 0 < place < basis.width for place in curve.places)
    right = right and len(set(curve.places)) == len(curve.places)
    shape = (len(curve.places), len(curve.edges) - 1) if right else ()
    right = right and curve.lower.shape == curve.upper.shape == shape and curve.edges.ndim == 1 and min(shape) > 0
    right = right and bool((np.diff(curve.edges) > 0).all())  # a search among others would look at the row before
    right = right and bool(((curve.lower >= -1) & (curve.lower <= curve.upper) & (curve.upper <= 1)).all())
    if not (right and all(np.array_equal(ends * UNIT, np.rint(ends * UNIT)) for ends in (curve.lower, curve.upper))):
        raise OptionError("curves", type_of(curve), "boxes of whole steps, within the scaled features' bounds")


def _check_cells(rows: CellSum) -> None:
    _check_plain(rows.features)
    rows.check()


def _check_queries(rows: QuerySum) -> None:
    if type(rows.cells) is not CellSum or not rows.cells.counts_only:
        raise OptionError("cells", type_of(rows.cells), "a table of counts")
    _check_cells(rows.cells)
    rows.check()


def _check_marginals(rows: MarginalSum) -> None:
    _check_plain(rows.features)
    if rows.features.basis.width != 1:
        raise OptionError("features", type_of(rows.features), "the constant alone: rows are counted")
    rows.check()


def _check_tree(rows: TreeSum) -> None:
    if type(rows.leaves) is not int or rows.leaves < 1 or rows.leaves & (rows.leaves - 1):
        raise OptionError("resolution", rows.leaves, "a power of two")
    rows.check()
    _check_cells(rows.cells)


def _check_points(rows: PointRows) -> None:
    if type(rows.tree) is not TreeSum:
        raise OptionError("tree", type_of(rows.tree), "a TreeSum")
    _check_tree(rows.tree)


def _check_replicates(rows: ReplicateSum) -> None:
    if rows.products:
        _check_features(rows.features)
    else:
        _check_plain(rows.features)
    rows.check()


def _check_round(rows: RoundSum | RoundCounts) -> None:
    rows.check()
    _check_features(rows.frame.features)


_CHECKS: dict[type, Callable[[Any], None]] = {
    CellSum: _check_cells,
    PersonSum: _check_cells,
    QuerySum: _check_queries,
    MarginalSum: _check_marginals,
    TreeSum: _check_tree,
    PointRows: _check_points,
    GramSum: lambda rows: _check_features(rows.features),
    RoundSum: _check_round,
    RoundCounts: _check_round,
    ScoreSum: lambda rows: rows.check(),
    ClassCounts: lambda rows: rows.check(),
    OctaveRows: lambda rows: rows.check(),
    ReplicateSum: _check_replicates,
}
