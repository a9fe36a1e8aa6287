"""Tables of several libraries as slices of plain columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from dpinfer.errors import DataError
from dpinfer.schema.cells import IMPOSSIBLE, Coded, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Cells = NDArray[Any] | Coded

__all__ = ["Source", "open_source"]


class Source(ABC):
    """A table whose rows can be read in slices.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns: public.
    rows : int
        Number of rows: confidential unless the neighbours keep it fixed.
    """

    columns: tuple[str, ...]
    rows: int

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""


class PandasSource(Source):
    """A pandas frame; numpy columns are read without a copy."""

    def __init__(self, frame: pd.DataFrame) -> None:
        frame = frame.copy(deep=False)  # what is changed in the other one later does not reach this one
        self._frame = frame
        self.columns = tuple(str(name) for name in frame.columns)
        self.rows = len(frame)
        self._positions = {str(name): place for place, name in enumerate(frame.columns)}

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
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categorical = series.array
        return Coded(np.asarray(categorical.codes), list(dtype.categories))
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_cells(pa.chunked_array(series.array.__arrow_array__()))
    try:
        if isinstance(dtype, pd.StringDtype):
            return distinct_texts(series.to_numpy(dtype=object))
        return series.to_numpy(dtype=object)
    except Exception:
        return _one_by_one(series)


def _one_by_one(series: pd.Series[Any]) -> NDArray[Any]:
    """Return cells where reading them together fails: one that cannot be read (broken text) is impossible."""
    cells = np.empty(len(series), dtype=object)
    for place in range(len(series)):
        try:
            cells[place] = series.array[place]
        except Exception:
            cells[place] = IMPOSSIBLE
    return cells


class ArrowSource(Source):
    """An Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = tuple(table.column_names)
        self.rows = table.num_rows

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {name: _arrow_cells(self._table.column(name).slice(start, stop - start)) for name in names}


def _arrow_cells(column: pa.ChunkedArray) -> Cells:
    kind = column.type
    if pa.types.is_integer(kind) and column.null_count:
        return _coded(column.combine_chunks())  # as floats, large ones would no longer be told apart
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        values = column.to_numpy()
        result: Cells = values if values.dtype.kind in "fiu" else values.astype(object)
        return result
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return _coded(array)
    cells = np.empty(len(column), dtype=object)
    for place, scalar in enumerate(column):
        cells[place] = _python_value(scalar)
    return cells


def _python_value(scalar: pa.Scalar) -> object:
    """Return a cell as Python has it; a cell that Python cannot hold (year 20000, broken text) is impossible."""
    try:
        return scalar.as_py()
    except Exception:
        return IMPOSSIBLE


def _coded(array: pa.Array) -> Coded:
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks() if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(codes, [_python_value(value) for value in encoded.dictionary])


def open_source(source: object) -> Source:
    """Recognise a table.

    Parameters
    ----------
    source : pandas.DataFrame, polars.DataFrame, pyarrow.Table, or any eager frame that narwhals knows

    Returns
    -------
    Source

    Raises
    ------
    DataError
        If it is none of these, or has repeated column names.
    """
    if isinstance(source, pd.DataFrame):
        opened: Source = PandasSource(source)
    elif isinstance(source, pa.Table):
        opened = ArrowSource(source)
    else:
        try:
            table = nw.from_native(source, eager_only=True).to_arrow()
        except TypeError:
            raise DataError(
                f"source is a {type(source).__name__}: expected a pandas or Polars DataFrame or a pyarrow Table"
            ) from None
        opened = ArrowSource(table)
    repeated = sorted({name for name in opened.columns if opened.columns.count(name) > 1})
    if repeated:
        raise DataError(f"the source has several columns named {', '.join(map(repr, repeated))}; rename them")
    return opened
