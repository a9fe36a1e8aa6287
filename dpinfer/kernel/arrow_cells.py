"""Arrow columns as plain cells, whatever their type, encoding and chunks.

Chunks are read one by one: joining them can fail because of a single cell. Where reading a column at once fails, its
cells are read one by one, and one that cannot be read is impossible.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from dpinfer.schema.cells import IMPOSSIBLE, Coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Cells = NDArray[Any] | Coded

__all__ = ["arrow_cells", "used_codes"]

_TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
_BYTES = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
_VALUES = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, *_TEXTS, *_BYTES)
_DATES = (types.is_date, types.is_timestamp)
_WRAPPERS = (types.is_dictionary, types.is_union, types.is_run_end_encoded)
_EXTENSIONS = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
"""Extension types that stand for a value of Python; of others nothing says what their storage means."""

_MOST_DIGITS = 38
"""Digits of a decimal of 128 bits."""

_EXACT_WHOLE, _EXACT_POWER = 2**53, 22
"""Whole numbers and powers of ten up to these are floats."""

_NOT_A_TIME = np.iinfo(np.int64).min


def arrow_cells(column: pa.ChunkedArray) -> Cells:
    """Read a column; nothing that it holds raises."""
    found: Cells | None = None
    with suppress(Exception):
        if _is(column.type, (types.is_boolean, types.is_integer, types.is_floating)):
            found = _numbers(column)
        elif types.is_decimal(column.type):
            found = _decimals(column)
        elif _is(column.type, _DATES) and not _beyond(column):
            found = column.to_numpy()
        if found is None and _is(column.type, (types.is_boolean, types.is_integer, types.is_dictionary, *_TEXTS)):
            found = _joined([_coded(chunk) for chunk in column.chunks])
    return _one_by_one(column) if found is None else found


def _is(kind: pa.DataType, tests: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(test(kind) for test in tests)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any] | None:
    """Numbers as an array; None for truth values, and whole numbers that are no floats, with missing cells."""
    if column.null_count and types.is_integer(column.type):
        ends = pc.min_max(column).as_py().values()
        if not all(end is None or abs(end) <= _EXACT_WHOLE for end in ends):
            return None
    elif column.null_count and not types.is_floating(column.type):
        return None
    values: NDArray[Any] = column.to_numpy()
    return values if values.dtype.kind in "biuf" else None


def _decimals(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Decimals as the nearest floats; None where one has more digits than a float holds.

    A whole number of at most 2**53 and a power of ten up to 10**22 are floats, so that their quotient is rounded once:
    to the float nearest to the decimal, which reading it alone gives, too.
    """
    scale = column.type.scale
    if not 0 <= scale <= _EXACT_POWER:
        return None
    parts = [np.zeros(0)]
    for piece in column.chunks:
        chunk = piece if types.is_decimal128(piece.type) else piece.cast(pa.decimal128(_MOST_DIGITS, scale))
        if not len(chunk):
            continue
        words = np.frombuffer(chunk.buffers()[1], dtype="<i8").reshape(-1, 2)[chunk.offset : chunk.offset + len(chunk)]
        null = chunk.is_null().to_numpy(zero_copy_only=False)
        low, high = words[:, 0], words[:, 1]
        if not (null | ((high == low >> 63) & (np.abs(low) <= _EXACT_WHOLE))).all():
            return None
        parts.append(np.where(null, np.nan, low / 10.0**scale))
    return np.concatenate(parts)


def _beyond(column: pa.ChunkedArray) -> bool:
    """Whether a date or time that is not missing has the number that stands for a missing one in numpy."""
    kind = pa.int32() if types.is_date32(column.type) else pa.int64()
    return kind == pa.int64() and bool(pc.any(pc.equal(column.cast(kind), _NOT_A_TIME)).as_py())


def _joined(parts: list[Coded]) -> Coded:
    """Put the dictionaries of chunks behind each other, whatever they share."""
    if len(parts) == 1:
        return parts[0]
    codes, values = [np.zeros(0, dtype=np.int64)], list[object]()
    for part in parts:
        own = part.codes.astype(np.int64)
        outside = (own < 0) | (own >= len(part.values))
        codes.append(np.where(outside, -1, own + len(values)))
        values.extend(part.values)
    return Coded(np.concatenate(codes), values)


def _coded(chunk: pa.Array) -> Coded:
    encoded = chunk if types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    indices, dictionary = encoded.indices, encoded.dictionary
    if indices.null_count:
        codes = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        codes[indices.is_null().to_numpy(zero_copy_only=False)] = -1
    else:
        codes = indices.to_numpy(zero_copy_only=False)
    codes, used = used_codes(codes, len(dictionary))
    return Coded(codes, _values(dictionary) if used is None else [_cell(dictionary, int(place)) for place in used])


def used_codes(codes: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Keep what the codes (m,) use of a dictionary that is larger than they are.

    The places of the dictionary that are kept are None for all; a code outside of it stays outside.
    """
    if size <= len(codes):
        return codes, None
    known = (codes >= 0) & (codes < size)
    inside = np.full(len(codes), -1, dtype=np.int64)
    used, inside[known] = np.unique(codes[known].astype(np.int64), return_inverse=True)
    return inside, used


def _values(array: pa.Array) -> list[object]:
    """Return the cells of a dictionary."""
    if _is(array.type, _TEXTS) or (types.is_integer(array.type) and not array.null_count):
        with suppress(Exception):  # broken text
            values: list[object] = array.to_numpy(zero_copy_only=False).tolist()
            return values
    return [_cell(array, place) for place in range(len(array))]


def _one_by_one(column: pa.ChunkedArray) -> NDArray[Any]:
    cells = np.empty(len(column), dtype=object)
    first = 0
    for chunk in column.chunks:
        for place in range(len(chunk)):
            cells[first + place] = _cell(chunk, place)
        first += len(chunk)
    return cells


def _cell(array: pa.Array, place: int) -> object:
    """Return a cell as Python has it; one that Python cannot hold (broken text) is impossible."""
    try:
        return _of_scalar(array[place])
    except Exception:
        return IMPOSSIBLE


def _of_scalar(scalar: pa.Scalar | None) -> object:
    if scalar is None or not scalar.is_valid:
        return None
    kind = scalar.type
    if _is(kind, _VALUES) or (isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _EXTENSIONS):
        value: object = scalar.as_py()
        return value
    if _is(kind, _DATES):
        unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
        return IMPOSSIBLE if scalar.value == _NOT_A_TIME else np.array(scalar.value, dtype=f"M8[{unit}]")[()]
    return _of_scalar(scalar.value) if _is(kind, _WRAPPERS) else IMPOSSIBLE
