"""Tables in memory, of several libraries, as batches of plain columns."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from dpinfer.errors import DataError
from dpinfer.kernel.arrow_cells import arrow_cells, used_codes
from dpinfer.kernel.sources.base import Table
from dpinfer.schema.cells import IMPOSSIBLE, Coded, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.sources.base import Cells

__all__ = ["ArrowSource", "PandasSource", "known_table", "open_table", "refuse_repeated"]


class PandasSource(Table):
    """A pandas frame; numpy columns are read without a copy."""

    def __init__(self, frame: pd.DataFrame) -> None:
        refuse_repeated([str(name) for name in frame.columns])
        frame = frame.copy(deep=False)  # what is changed in the other one later does not reach this one
        self._frame = frame
        self.columns = tuple(str(name) for name in frame.columns)
        self.rows = len(frame)
        self._positions = {str(name): place for place, name in enumerate(frame.columns)}

    @property
    def types(self) -> Mapping[str, object]:
        """The dtypes."""
        return {name: self._frame.dtypes.iloc[place] for name, place in self._positions.items()}

    @cached_property
    def _plain(self) -> dict[str, NDArray[Any]]:
        """Columns kept as numpy arrays, as views."""
        columns = {name: self._frame.iloc[:, place] for name, place in self._positions.items()}
        return {name: column.to_numpy() for name, column in columns.items() if isinstance(column.dtype, np.dtype)}

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {
            name: self._plain[name][start:stop]
            if name in self._plain
            else _pandas_cells(self._frame.iloc[start:stop, self._positions[name]])
            for name in names
        }


def _pandas_cells(series: pd.Series[Any]) -> Cells:
    try:
        return _together(series)
    except Exception:
        return _one_by_one(series)


def _together(series: pd.Series[Any]) -> Cells:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes, used = used_codes(np.asarray(series.array.codes), len(dtype.categories))
        categories = dtype.categories if used is None else dtype.categories.take(used)
        return Coded(codes, _levels(categories))
    if isinstance(dtype, pd.ArrowDtype):
        return arrow_cells(pa.chunked_array(series.array.__arrow_array__()))
    cells = series.to_numpy(dtype=object)
    return distinct_texts(cells) if isinstance(dtype, pd.StringDtype) else cells


def _levels(categories: pd.Index[Any]) -> list[object]:
    if not isinstance(categories.dtype, pd.ArrowDtype):
        return list(categories)
    cells = arrow_cells(pa.chunked_array(categories.array.__arrow_array__()))
    if not isinstance(cells, Coded):
        return list(cells)
    values = [*cells.values, None]  # noqa: PD011  (no pandas object)
    return [values[place] for place in cells.positions.tolist()]


def _one_by_one(series: pd.Series[Any]) -> NDArray[Any]:
    """Return cells where reading them together fails: one that cannot be read (broken text) is impossible."""
    cells = np.empty(len(series), dtype=object)
    for place in range(len(series)):
        try:
            cells[place] = series.array[place]
        except Exception:
            cells[place] = IMPOSSIBLE
    return cells


class ArrowSource(Table):
    """Columns of Arrow, or of Python objects, of one length."""

    def __init__(self, columns: Mapping[str, pa.ChunkedArray | NDArray[Any]], rows: int) -> None:
        self._columns = columns
        self.columns = tuple(columns)
        self.rows = rows

    @property
    def types(self) -> Mapping[str, object]:
        """Types of Arrow, of Python objects that of numpy."""
        return {
            name: column.dtype if isinstance(column, np.ndarray) else column.type
            for name, column in self._columns.items()
        }

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {name: self._cells(name, start, stop) for name in names}

    def _cells(self, name: str, start: int, stop: int) -> Cells:
        column = self._columns[name]
        return column[start:stop] if isinstance(column, np.ndarray) else arrow_cells(column.slice(start, stop - start))


def _exported(frame: nw.DataFrame[Any], name: str) -> pa.ChunkedArray | NDArray[Any]:
    """Give a column of another library as Arrow; as objects where its type has no counterpart there."""
    if frame.schema[name] != nw.Object:  # these would be given as addresses in memory
        with suppress(Exception):
            return frame.select(name).to_arrow().column(0)
    column = frame[name]
    cells = np.empty(len(column), dtype=object)
    for place in range(len(column)):
        try:
            cells[place] = column[place]
        except Exception:
            cells[place] = IMPOSSIBLE
    return cells


def open_table(source: object) -> Table:
    """Recognise a table in memory; `DataError` if it is none, or has repeated column names."""
    table = known_table(source)
    if table is None:
        raise DataError(
            f"source is a {type(source).__name__}: expected a pandas or Polars DataFrame or a pyarrow Table"
        )
    return table


def known_table(source: object) -> Table | None:
    """Recognise a table in memory, None if it is none; `DataError` if it has repeated column names."""
    if isinstance(source, pd.DataFrame):
        return PandasSource(source)
    if isinstance(source, pa.Table):
        refuse_repeated(source.column_names)
        return ArrowSource(dict(zip(source.column_names, source.columns, strict=True)), source.num_rows)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        return None
    native = nw.to_native(frame)
    if isinstance(native, pd.DataFrame | pa.Table):
        return known_table(native)
    if frame.implementation.is_polars():
        return ArrowSource({name: _exported(frame, name) for name in frame.columns}, len(frame))
    return PandasSource(frame.to_pandas())


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse columns of one name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"the source has several columns named {', '.join(map(repr, repeated))}; rename them")
