"""Data with a guard: confidential rows that only the kernel reads, and public rows for simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dpinfer.errors import DataError, OptionError, UnknownColumnError
from dpinfer.mechanisms.sources import open_source
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import NEIGHBORS, Neighbors
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.mechanisms.sources import Source

__all__ = ["Data", "PrivateData", "PublicData"]


class Data:
    """Rows with a public schema and a neighbour relation; see `PrivateData` and `PublicData`."""

    schema: Schema
    neighbors: Neighbors

    def __init__(self, source: object, schema: Schema, neighbors: Neighbors) -> None:
        if not isinstance(schema, Schema):
            raise OptionError("schema", type(schema).__name__, "a dpinfer Schema")
        self._source = open_source(source)
        for name in schema:
            if name not in self._source.columns:
                raise UnknownColumnError(name, self._source.columns, "the data")
        self.schema = schema
        self.neighbors = neighbors

    @property
    def nobs(self) -> int | None:
        """Number of rows where it is public, that is under replace_one; else None."""
        return self._source.rows if self.neighbors == "replace_one" else None

    def __reduce__(self) -> NoReturn:
        raise DataError(f"{type(self).__name__} is not pickled or copied: it would carry the rows away")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()


class PrivateData(Data):
    """Confidential rows. Nothing is read from them except through a priced measurement.

    Parameters
    ----------
    source : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The rows. Column names are public, everything else is confidential. Not copied: leave it unchanged.
    schema : Schema
        Columns and their bounds, declared and not looked up in the rows.
    ledger : Ledger
        Where every release of these rows is charged; it also says which neighbours are protected.

    Raises
    ------
    UnknownColumnError
        If a declared column is not among the source's columns.
    DataError
        If the source is of an unknown type.
    OptionError
        If ``schema`` or ``ledger`` is something else.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> frame = pd.DataFrame({"age": [31.0, 45.0], "income": [20.0, 30.0]})
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    PrivateData(columns: age, income; neighbours: add_remove; number of rows: confidential)
    """

    def __init__(self, source: object, schema: Schema, ledger: Ledger) -> None:
        if not isinstance(ledger, Ledger):
            raise OptionError("ledger", type(ledger).__name__, "a dpinfer Ledger: Ledger(...) or Ledger.in_memory(...)")
        super().__init__(source, schema, ledger.neighbors)
        self.ledger = ledger

    def __repr__(self) -> str:
        size = "confidential" if self.nobs is None else f"{self.nobs:,} (public)"
        return f"PrivateData(columns: {', '.join(self.schema)}; neighbours: {self.neighbors}; number of rows: {size})"


class PublicData(Data):
    """Rows that need no protection: the same procedures, with seeded noise, for simulation and tests.

    Parameters
    ----------
    source : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema
    rng : numpy.random.Generator
        Source of the simulated noise.
    neighbors : {"add_remove", "replace_one"}
        The relation that is simulated.

    Raises
    ------
    UnknownColumnError, DataError, OptionError
        As `PrivateData`.
    """

    def __init__(
        self, source: object, schema: Schema, *, rng: np.random.Generator, neighbors: Neighbors = "add_remove"
    ) -> None:
        if not isinstance(rng, np.random.Generator):
            raise OptionError("rng", rng, "a numpy Generator such as numpy.random.default_rng(1)")
        if neighbors not in NEIGHBORS:
            raise OptionError("neighbors", neighbors, NEIGHBORS)
        super().__init__(source, schema, neighbors)
        self.rng = rng

    def __repr__(self) -> str:
        return f"PublicData(columns: {', '.join(self.schema)}; neighbours: {self.neighbors}; protects nobody)"


def rows_of(data: Data) -> Source:
    """Return the rows; for the kernel alone."""
    return data._source
