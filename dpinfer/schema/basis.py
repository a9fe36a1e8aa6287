"""What is measured for a design: the features that span its columns.

A formula's columns are linear combinations of *features*. A feature block is a bounded numeric expression,
or an expression times the codes of one or more categorical columns. Only features are summed over rows;
any contrast, reference level or subset of the columns is then a linear map of the features.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import CollinearDesignError, FormulaError, MissingFromReleaseError
from dpinfer.schema.columns import Real
from dpinfer.schema.expressions import column_expression, compile_expression
from dpinfer.schema.grid import UNIT, Basis, Block, Curve, constant_basis, groups_of, widened
from dpinfer.schema.intervals import Interval, tree_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.formula import DesignColumn
    from dpinfer.schema.nodes import Expression, Node
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Atom = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]
    Vector = dict[Atom, float]

_PIECES = 128
"""Into which the range of a column is cut."""


def _curves(blocks: Sequence[Block], schema: Schema) -> tuple[Curve, ...]:
    """Bound each of several features of one numeric column on each piece of the column's range."""
    curves = []
    for places in groups_of(blocks):
        group = [blocks[place] for place in places]
        columns = {name for block in group for name in block.expression.columns}
        column = schema[min(columns)] if len(group) > 1 and len(columns) == 1 else None
        if isinstance(column, Real):
            trees = tuple(block.expression.node for block in group)
            edges, low, high = _pieces(min(columns), float(column.lower), float(column.upper), trees)
            center, half = (np.array([[getattr(block, name)] for block in group]) for name in ("center", "half"))
            boxes = widened((low - center) / half, (high - center) / half)
            curves.append(Curve(min(columns), places, edges, *boxes))
    return tuple(curves)


@lru_cache(maxsize=256)
def _pieces(name: str, lower: float, upper: float, trees: tuple[Node, ...]) -> tuple[Array, Array, Array]:
    edges = np.unique(np.linspace(lower, upper, _PIECES + 1))  # fewer where there are few floats between the bounds
    edges[0], edges[-1] = lower, upper
    low, high = np.empty((len(trees), edges.size - 1)), np.empty((len(trees), edges.size - 1))
    for piece in range(edges.size - 1):
        part = {name: Interval(float(edges[piece]), float(edges[piece + 1]))}
        for place, tree in enumerate(trees):
            bounds = tree_bounds(tree, part)
            low[place, piece], high[place, piece] = bounds.lower, bounds.upper
    return edges, low, high


_TOLERANCE = 1e-7

_REPEATS = 12
"""Projections on the codes of a factor: each leaves 1% of what the one before it left, or less."""

_NARROWEST = 1e-290
_WIDEST = 1e140
"""Half widths from which every finite value has a place on the grid."""


def simplex_codes(levels: int) -> NDArray[np.int64]:
    """Codes of a factor: the corners of a regular simplex on the grid, (levels, levels - 1).

    Rows have norm at most 1 and equal mutual distances, so every level is measured equally well and the
    factor counts once in the row norm. Entries are cut toward zero, and the cut table is the code.
    """
    helmert = np.zeros((levels, levels - 1))
    for column in range(levels - 1):
        helmert[: column + 1, column] = 1.0
        helmert[column + 1, column] = -(column + 1.0)
        helmert[:, column] /= np.sqrt((column + 1.0) * (column + 2.0))
    corners = helmert * np.sqrt(levels / (levels - 1.0))
    result: NDArray[np.int64] = np.trunc(corners * UNIT).astype(np.int64)
    return result


def build_basis(columns: Sequence[DesignColumn], schema: Schema) -> Basis:
    """Choose the features that span some columns.

    Parameters
    ----------
    columns : sequence of DesignColumn
        Regressors and response.
    schema : Schema

    Returns
    -------
    Basis
        The constant, then for each column its expression with every subset of its factors.
    """
    wanted: dict[tuple[str, tuple[str, ...]], Expression] = {}
    for column in columns:
        names = sorted({name for name, _ in column.codings})
        for size in range(len(names) + 1):
            for subset in combinations(names, size):
                wanted.setdefault((column.expression.text, subset), column.expression)
    constants = {factors for (_, factors), expression in wanted.items() if expression.constant is not None}
    blocks = list(constant_basis(schema).blocks)
    one = blocks[0].expression
    for (_, factors), expression in wanted.items():
        if expression.constant is None:
            blocks.append(_block(expression, factors, centred=not factors or factors in constants, schema=schema))
        elif factors:
            blocks.append(_block(one, factors, centred=True, schema=schema))
    return Basis(schema, tuple(blocks))


@lru_cache(maxsize=64)
def basis_of(texts: tuple[str, ...], schema: Schema, *, centred: bool = True) -> Basis:
    """Measure bounded expressions as they are, after the constant 1.

    Parameters
    ----------
    texts : tuple of str
        Numeric expressions of declared columns.
    schema : Schema
    centred : bool
        Whether a feature is measured from the middle of its bounds, or from zero.

    Raises
    ------
    FormulaError, UnknownColumnError
        If an expression cannot be bounded on the declared bounds.
    """
    blocks = list(constant_basis(schema).blocks)
    for text in texts:
        expression = compile_expression(text, schema)
        if expression.constant is not None:
            raise FormulaError(text, "is the same for every row", "measure something that differs between rows")
        blocks.append(_block(expression, (), centred=centred, schema=schema))
    return Basis(schema, tuple(blocks), _curves(blocks, schema))


def _block(expression: Expression, factors: tuple[str, ...], *, centred: bool, schema: Schema) -> Block:
    shape = tuple(len(schema[name].level_texts) for name in factors)
    codes = np.array([[UNIT]], dtype=np.int64)
    for levels in shape:
        codes = np.trunc(np.kron(codes / UNIT, simplex_codes(levels) / UNIT) * UNIT).astype(np.int64)
    lower, upper = expression.lower, expression.upper
    largest = max(abs(lower), abs(upper))
    if expression.constant is not None:
        center, half = 0.0, 1.0
    elif centred:
        center, half = 0.5 * lower + 0.5 * upper, float(np.nextafter(0.5 * (upper - lower), np.inf))
    else:
        center, half = 0.0, largest
    if largest > _WIDEST:
        raise FormulaError(expression.text, f"can be as large as {largest:g}", "rescale it")
    if not half >= _NARROWEST:
        # UNIT / half would be infinite, and zero times it no number: a row would be dropped for its value.
        reason = f"its bounds {lower:.6g} and {upper:.6g} are too close to be told apart"
        raise FormulaError(expression.text, reason, "rescale the columns by a public constant, or leave it out")
    return Block(expression, factors, center, half, codes, shape)


def represent(basis: Basis, columns: Sequence[DesignColumn], *, independent: bool = True) -> Array:
    """Write columns as linear combinations of the features.

    Parameters
    ----------
    basis : Basis
    columns : sequence of DesignColumn, length p
    independent : bool
        Whether linearly dependent columns are an error.

    Returns
    -------
    ndarray (p, d)
        Each column is its row times the features.

    Raises
    ------
    CollinearDesignError
        If the columns are linearly dependent whatever the rows are.
    MissingFromReleaseError
        If a column is not a combination of the features.
    """
    targets: list[Vector] = []
    for column in columns:
        names, weights = zip(*column.codings, strict=True) if column.codings else ((), ())
        table = reduce(np.multiply.outer, map(np.array, weights), np.array(1.0))
        targets.append(_expand(column.expression.polynomial, names, table))
    asked = {name for column in columns for name, _ in column.codings}
    used = np.zeros(basis.width, dtype=bool)
    measured: list[Vector] = []
    for block, place in zip(basis.blocks, np.cumsum([0, *(one.width for one in basis.blocks)]), strict=False):
        if block.constant and block.factors and asked.isdisjoint(block.factors) and _alone(block, basis):
            continue  # its features are independent of all others, and no column has a part in them
        used[place : place + block.width] = True
        scaled = {atom: weight / block.half for atom, weight in block.expression.polynomial.items()}
        scaled[()] = scaled.get((), 0.0) - block.center / block.half
        tables = (block.codes / UNIT).reshape(*block.shape, block.width)
        measured.extend(_expand(scaled, block.factors, tables[..., index]) for index in range(block.width))
    atoms = sorted({atom for vector in (*measured, *targets) for atom in vector})
    place = {atom: index for index, atom in enumerate(atoms)}
    dense = np.zeros((len(measured) + len(targets), len(atoms)))
    for row, vector in enumerate([*measured, *targets]):
        for atom, weight in vector.items():
            dense[row, place[atom]] = weight
    dense *= np.array([_size(atom, basis.schema) for atom in atoms])
    features, wanted = np.split(dense, [len(measured)])
    if independent:
        _refuse_collinear(wanted, columns)
    found: Array = np.linalg.lstsq(features.T, wanted.T, rcond=1e-13)[0].T.astype(np.float64)
    error = np.abs(found @ features - wanted).max(axis=1)
    for column, off, scale in zip(columns, error, np.abs(wanted).max(axis=1), strict=True):
        if off > _TOLERANCE * max(scale, 1e-12):
            raise MissingFromReleaseError(
                f"{column.name!r} is not a combination of what was measured; measured: {', '.join(basis.names)}"
            )
    found[np.abs(found) < 1e-12 * np.abs(found).max(axis=1, keepdims=True)] = 0.0
    whole = np.zeros((len(columns), basis.width))
    whole[:, used] = found
    return whole


def represent_levels(basis: Basis, factor: str, weights: Array) -> Array:
    """Write the weight of a factor's level (levels,) as a combination of the features (d,).

    The features are the constant and the factor's own, whose codes are orthogonal up to the grid: what the projection
    on them leaves is projected again until nothing is left. `represent` would invert them.
    """
    starts = np.cumsum([0, *(one.width for one in basis.blocks)])
    (place,) = (i for i, one in enumerate(basis.blocks) if one.constant and one.factors == (factor,))
    codes = basis.blocks[place].codes / UNIT
    levels, found = len(weights), np.zeros(basis.width)
    own, left = found[starts[place] : starts[place + 1]], np.asarray(weights, dtype=np.float64)
    for _ in range(_REPEATS):
        middle = left.mean()
        found[0] += middle
        own += (left - middle) @ codes * ((levels - 1) / levels)
        left = weights - found[0] - codes @ own
    return found


def _alone(block: Block, basis: Basis) -> bool:
    """Whether no other block has one of a block's factors."""
    return all(one is block or set(one.factors).isdisjoint(block.factors) for one in basis.blocks)


def _expand(polynomial: Mapping[tuple[tuple[str, int], ...], float], factors: tuple[str, ...], table: Array) -> Vector:
    """Coordinates over monomials times indicators of levels other than each factor's first."""
    moved = np.array(table, dtype=np.float64)
    for axis in range(len(factors)):
        first = np.take(moved, [0], axis=axis)
        rest = np.delete(moved, 0, axis=axis) - first
        moved = np.concatenate([first, rest], axis=axis)
    vector: Vector = {}
    for index in zip(*(one.tolist() for one in np.nonzero(moved)), strict=True) if factors else [()]:
        weight = float(moved[index])
        present = tuple(sorted((factors[axis], level) for axis, level in enumerate(index) if level))
        for monomial, coefficient in polynomial.items():
            atom = (monomial, present)
            vector[atom] = vector.get(atom, 0.0) + weight * coefficient
    return vector


def _size(atom: Atom, schema: Schema) -> float:
    """Largest absolute value that the numeric part of an atom can take."""
    size = 1.0
    for leaf, power in atom[0]:
        expression = (column_expression if leaf in schema else compile_expression)(leaf, schema)
        size *= max(abs(expression.lower), abs(expression.upper)) ** power
    return size or 1.0


def _refuse_collinear(wanted: Array, columns: Sequence[DesignColumn]) -> None:
    scaled = wanted / np.maximum(np.abs(wanted).max(axis=1, keepdims=True), 1e-300)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    if len(columns) <= scaled.shape[1] and np.linalg.svd(scaled, compute_uv=False)[-1] >= 1e-9:
        return  # the least singular value of fewer rows is no smaller
    for count in range(1, len(columns) + 1):
        if count > scaled.shape[1] or np.linalg.svd(scaled[:count], compute_uv=False)[-1] < 1e-9:
            raise CollinearDesignError(
                columns[count - 1].name,
                "is a linear combination of the columns before it whatever the rows are",
                "leave out one of " + ", ".join(column.name for column in columns[:count]),
            )
