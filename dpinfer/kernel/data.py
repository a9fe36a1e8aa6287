"""Rows with a public schema: confidential rows, which only the kernel reads, and public rows for simulation."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from dpinfer.checks import of_type
from dpinfer.errors import (
    DataError,
    LedgerError,
    OptionError,
    ReleaseNotSavedError,
    SchemaError,
    UnknownColumnError,
    type_of,
)
from dpinfer.kernel import stage
from dpinfer.kernel.people import BUCKETS, KeptSource, SpilledPeople, check_disk
from dpinfer.kernel.price import check_columns
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.rows.products import ReplicateSum
from dpinfer.kernel.run import run
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sources.base import Source, Table, no_warnings
from dpinfer.privacy.store import ROWS, Account
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy
from dpinfer.release.request import Request
from dpinfer.schema.cells import Coded
from dpinfer.schema.declared import kind_of_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpinfer.kernel.plan import Plan
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.release import Release
    from dpinfer.release.release import Advice
    from dpinfer.schema.schema import Schema

_CHARGE_ID = re.compile("[0-9a-f]{32}")
_LONGEST_VERSION = 100


class Rows(stage.Data):
    """Rows, private or public, with a public schema and a definition of neighbours."""

    __slots__ = ("_advice", "_counted", "_kept", "_lock", "_schema", "_source")

    def __init__(
        self, source: object, schema: Schema, person: str | None, max_rows: int | None, types: object = None
    ) -> None:
        check_columns(schema)
        if person is None and max_rows is not None:
            raise OptionError("id", None, "the column that identifies people, together with max_rows=")
        if person is not None and max_rows is None:
            raise OptionError("max_rows", None, "with id= the most rows of one person that are kept")
        if person is not None and max_rows is not None:  # a schema that has people keeps them
            schema = schema.with_people(person, max_rows)
        source = self._source = open_source(source)
        source.find([*schema, *(() if schema.people is None else (schema.people.id,))])
        for name in schema:
            if name not in source.columns:
                raise UnknownColumnError(name, source.columns, "the data")
        if schema.people is not None and schema.people.id not in source.columns:
            right = f"a column of the data that identifies people: {', '.join(source.columns)}"
            raise OptionError("id", schema.people.id, right)
        if types is not None:
            _check_types(schema, source, types)
        self._schema = schema
        self._kept: KeptSource | None = None
        self._counted: int | None = None
        self._lock = threading.Lock()
        self._advice: tuple[Advice, ...] = ()

    @property
    def schema(self) -> Schema:
        """The public schema, including the person id if people are the unit of protection."""
        return self._schema

    @property
    def nobs(self) -> int | None:
        """Number of rows if it is public, that is, under replace_one with rows as the unit; else None."""
        if self.neighbors != "replace_one" or self._schema.people is not None:
            return None
        if self._counted is None:  # before a charge: nothing is said of a row but what the source says itself
            try:
                with no_warnings():
                    self._counted = self._source.count()
            except DataError:
                raise
            except Exception:
                pass
        if self._counted is None:  # outside of the handler: an error holds on to the one that it meets there
            raise DataError(
                "source: the rows cannot be counted, and their number is public under replace_one; "
                "nothing is said of why, as that may depend on a row"
            )
        return self._counted

    def _repr_html_(self) -> str:
        """Show the public facts as HTML in a notebook, without any row or the number of rows."""
        from dpinfer.schema.schema import rows_report  # noqa: PLC0415  (no part of a private run)

        return rows_report(type(self).__name__, self._schema, self.neighbors, getattr(self, "ledger", None)).html()

    def cite(self, release: Release) -> None:
        """Attach the advice of a data-quality release to later releases of these rows.

        Later releases then note the advice on the columns that they read. A quality release made from this object is
        attached automatically. Nothing is read or spent.

        Parameters
        ----------
        release : Release
            A release of `dpinfer.quality`. Its advice on columns with a different declaration is omitted.

        Raises
        ------
        OptionError
            If ``release`` is anything else.
        """
        advice = getattr(release, "advice", None) if getattr(release, "kind", None) == "quality" else None
        if not isinstance(advice, tuple):
            raise OptionError("release", type_of(release), "a Release of dpi.quality")
        asked, mine = release.schema, self._schema
        self._advice = tuple(
            one for one in advice if all(name in mine and mine[name] == asked[name] for name in one.columns)
        )

    def _noted(self, release: Release) -> Release:
        """Return a release with earlier advice on its columns; store the advice of a quality release.

        All of it is a function of releases. A user's procedure may return something else, which is returned unchanged,
        since it has been charged.
        """
        try:
            if release.kind == "quality":
                self.cite(release)
                return release
            return release.with_notes(self._advice) if self._advice else release
        except Exception:
            return release

    @contextmanager
    def _open(self) -> Iterator[Source]:
        """Open the rows of one run, after bounding contributions; for the kernel alone, after the charge."""
        if self._schema.people is None:
            with self._source.opened() as rows:
                yield rows
        elif isinstance(self._source, Table):
            with self._lock, no_warnings():
                if self._kept is None:
                    self._kept = KeptSource(self._source, self._schema)
            yield self._kept
        else:
            with (
                self._source.opened() as rows,
                rows.of_people(self._schema) or SpilledPeople(rows, self._schema).opened() as kept,
            ):
                yield kept

    def _ready(self, measured: Plan) -> None:
        """Refuse, before a charge, a plan that the source of the rows does not support."""
        people, asked = self._schema.people is not None, [one.rows for one in measured.stages]
        weights = next((one.weights for one in asked if isinstance(one, ReplicateSum)), None)
        blocks = any(isinstance(one, BlockSum) for one in asked)
        passes = sum(not isinstance(one, BlockSum) for one in asked) + blocks  # one deals the blocks of all stages
        self._source.check(passes=1 if people else passes, weights=weights)  # rows of people are read once and kept
        if not isinstance(self._source, Table):
            places = any(isinstance(one.stage.measure, stage.Place) for one in measured.stages)
            check_disk(2 * BUCKETS * people + BUCKETS * blocks + places)

    def __reduce__(self) -> NoReturn:
        raise DataError(
            f"{type(self).__name__} is not pickled or copied: it would carry the rows away; open the source anew where "
            "it is used, with the same ledger file, or use threads"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()


class PrivateData(Rows):
    """Confidential rows, which only measurements charged to a privacy budget can read.

    Parameters
    ----------
    source : DataFrame, path, query or engine
        The rows: a pandas or Polars DataFrame, or a pyarrow Table; the path of a Parquet or CSV file, or a folder or
        glob of such files; a pyarrow Dataset or RecordBatchReader; a Polars LazyFrame; a DuckDB relation, or a DuckDB
        connection and a query; an Ibis table; a Dask or Spark DataFrame; or any object with ``__arrow_c_stream__``.
        Column names are public; everything else is confidential. The source is not copied: leave it unchanged.
    schema : Schema
        Columns and their bounds, declared rather than derived from the rows.
    ledger : Ledger
        The ledger that every release of these rows is charged to. It also sets the definition of neighbours.
    id : str, optional
        The column that identifies people, if one person may have several rows. The unit of protection is then a person
        with all of their rows. It is not declared in the schema. Rows without an id are dropped. See
        `dpinfer.kernel.people.person_codes` for which values are one id.
    max_rows : int, optional
        With ``id``, the largest number of rows kept per person, from 1 to 4,096. A public hash chooses the rows to
        drop. All noise is proportional to it.
    types : "declared", mapping of str to type, pyarrow.Schema or Schema, optional
        Types that were fixed before the rows were collected and that the schema must match: ``"declared"`` if the
        source has the types of a database, or an argument of `Schema.check`. By default storage types are ignored,
        since one row can change them.
    version : str, optional
        Your name for this version of the rows, such as ``"2026-03"``. It is public, and recorded in releases and
        charges. A stored release of another version is not reused. Rows are never compared, so change the name when
        they change.

    Raises
    ------
    UnknownColumnError
        If a declared column is not among the source's columns.
    SchemaError
        If the schema does not match the declared types.
    DataError
        If the source is of an unknown type, or cannot be opened.
    OptionError
        If ``schema`` or ``ledger`` has another type; if ``id`` is not a column of the source, or is a declared column;
        if only one of ``id`` and ``max_rows`` is given, or one is invalid; if ``types`` are invalid; or if ``version``
        is not a short text.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> frame = pd.DataFrame({"age": [31.0, 45.0], "income": [20.0, 30.0]})
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    PrivateData(columns: age, income; neighbours: add_remove; number of rows: confidential)
    """

    __slots__ = ("_account", "_ledger", "_version")

    def __init__(
        self,
        source: object,
        schema: Schema,
        ledger: Ledger,
        *,
        id: str | None = None,
        max_rows: int | None = None,
        types: object = None,
        version: str | None = None,
    ) -> None:
        account = getattr(ledger, "account", None)
        if type(account) is not Account:  # not a subclass, which might charge less
            raise OptionError("ledger", type_of(ledger), "a dpinfer Ledger: Ledger(...) or Ledger.in_memory(...)")
        named = type(version) is str and 0 < len(version) <= _LONGEST_VERSION and version.isprintable()
        if version is not None and not (named and version.strip()):
            expected = f"a text of 1 to {_LONGEST_VERSION} printable characters that names this state of the rows"
            raise OptionError("version", version if isinstance(version, str) else type_of(version), expected)
        super().__init__(source, schema, id, max_rows, types)
        self._ledger, self._account, self._version = ledger, account, version

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("PrivateData is not subclassed: what guards the rows cannot be overridden")

    @property
    def ledger(self) -> Ledger:
        """The ledger that every release of these rows is charged to."""
        return self._ledger

    @property
    def neighbors(self) -> Neighbors:
        """The definition of neighbouring data sets: that of the ledger and all its charges."""
        return self._account.neighbors

    @property
    def public(self) -> bool:
        """False: these rows are confidential."""
        return False

    @property
    def version(self) -> str | None:
        """The declared name of this version of the rows."""
        return self._version

    def run(
        self, procedure: Any, privacy: Privacy, *, charge_id: str | None = None, seen: int | None = None
    ) -> Release:
        """Charge the ledger for a procedure, measure, and store the release if the ledger keeps releases.

        See `dpinfer.kernel.run.run`, and `dpinfer.kernel.stage.Data.run` for the options.

        Raises
        ------
        ReleaseNotSavedError
            If the ledger stores releases but cannot store this one; the error carries it.
        """
        if not (charge_id is None or (type(charge_id) is str and _CHARGE_ID.fullmatch(charge_id))):
            raise OptionError("charge_id", type_of(charge_id), "32 hexadecimal digits")
        account, people, kept, charged = self._account, self._schema.people, False, ""

        def charge(measured: Plan) -> str:
            unit = ROWS if people is None else f"people told apart by {people.id!r}"
            said = measured.text if measured.text.startswith(measured.kind) else f"{measured.kind}: {measured.text}"
            said = said if people is None else f"{said} (unit: {people.unit})"
            said = said if self._version is None else f"{said} (version of the data: {self._version})"

            def asked() -> str:
                nonlocal kept
                kept = True
                question, of = (measured.question, privacy, self.neighbors), (account.header.dataset, self._version)
                return Request(*question, *of).to_json()

            nonlocal charged
            charged = account.charge(measured.cost, said, unit=unit, asked=asked, identifier=charge_id, seen=seen)
            return charged

        with self._source.turn:
            release = self._noted(
                run(
                    procedure,
                    self.context(privacy),
                    ready=self._ready,
                    source=self._open,
                    draws=PrivateDraws(),
                    charge=charge,
                    dataset=account.header.dataset,
                    version=self._version,
                )
            )
        if kept:  # nothing of the rows is in it but what was released
            try:
                account.keep(charged, release.to_json())
            except BaseException as error:  # an interrupt, too, would lose what was paid for
                reason = str(error) if isinstance(error, LedgerError) else type(error).__name__
                raise ReleaseNotSavedError(str(account.store), reason, release) from None
        return release

    def __repr__(self) -> str:
        size = "confidential" if self.nobs is None else f"{self.nobs:,} (public)"
        unit = "" if self.schema.people is None else f"; unit: {self.schema.unit}"
        columns = ", ".join(self.schema)
        return f"PrivateData(columns: {columns}; neighbours: {self.neighbors}{unit}; number of rows: {size})"


def _check_types(schema: Schema, source: Source, types: object) -> None:
    """Refuse a schema that contradicts declared types; an uninformative type matches any column."""
    if isinstance(types, str) and types != "declared":
        raise OptionError("types", types, '"declared", or declared types by column')
    declared: dict[str, object] = {}
    for name, given in source.types.items() if isinstance(types, str) else ():
        try:
            declared[name] = kind_of_type(name, given)
        except OptionError:
            declared[name] = None
    found = schema.check(declared if isinstance(types, str) else types)
    if not found:
        raise SchemaError(str(found))


class PublicData(Rows):
    """Public rows for the same procedures with seeded noise, for simulation and tests.

    Parameters
    ----------
    source : DataFrame, path, query or engine
        As in `PrivateData`.
    schema : Schema
    rng : numpy.random.Generator
        Source of the simulated noise.
    neighbors : {"add_remove", "replace_one"}
        The definition of neighbouring data sets to simulate.
    id, max_rows : optional
        As in `PrivateData`.

    Raises
    ------
    UnknownColumnError, DataError, OptionError
        As for `PrivateData`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)  # no ledger: nothing is protected
    >>> results = dpi.mean("age", data).fit(dpi.ZCDP(0.1))
    >>> results.release.public
    True
    """

    __slots__ = ("_neighbors", "_plans", "_rng")

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        rng: np.random.Generator,
        neighbors: Neighbors = "add_remove",
        id: str | None = None,
        max_rows: int | None = None,
    ) -> None:
        of_type(np.random.Generator, "rng", rng, "a numpy Generator such as numpy.random.default_rng(1)")
        if neighbors not in NEIGHBORS:
            raise OptionError("neighbors", neighbors, NEIGHBORS)
        super().__init__(source, schema, id, max_rows)
        self._neighbors: Neighbors = neighbors
        self._rng = rng
        self._plans: dict[tuple[str, stage.Context], Plan] = {}

    @property
    def neighbors(self) -> Neighbors:
        """The definition of neighbouring data sets that is simulated."""
        return self._neighbors

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the simulated noise."""
        return self._rng

    @property
    def public(self) -> bool:
        """True: these rows need no protection."""
        return True

    def with_rows(self, source: object, rng: np.random.Generator) -> PublicData:
        """Return other public rows with the same declarations, reusing the plans made for these.

        Parameters
        ----------
        source : DataFrame, path, query or engine
        rng : numpy.random.Generator
            Source of the simulated noise.

        Returns
        -------
        PublicData

        Raises
        ------
        UnknownColumnError, DataError, OptionError
            As for `PublicData`.
        """
        found = PublicData(source, self.schema, rng=rng, neighbors=self._neighbors)
        found._plans = self._plans
        return found

    def frame(self) -> pd.DataFrame:
        """Return the rows, with the id column if people are the unit of protection."""
        people = self.schema.people
        names = (*self.schema, *(() if people is None else (people.id,)))
        with self._source.opened() as rows:
            parts = [batch.read() for batch in rows.batches(names, CHUNK_ROWS)]
        columns: dict[str, Any] = {}
        for name in names:
            found = [plain_cells(cells[name]) for cells in parts] or [np.zeros(0)]
            if len({one.dtype for one in found}) > 1:  # as objects, so that no cell is changed
                found = [one.astype(object) for one in found]
            columns[name] = np.concatenate(found)
        return pd.DataFrame(columns)

    def run(
        self,
        procedure: Any,
        privacy: Privacy,
        *,
        charge_id: str | None = None,  # noqa: ARG002
        seen: int | None = None,  # noqa: ARG002
    ) -> Release:
        """Measure a procedure with simulated noise, without a charge; see `dpinfer.kernel.run.run`."""
        draws = SimulatedDraws(self._rng)
        return self._noted(
            run(
                procedure,
                self.context(privacy),
                source=self._open,
                ready=self._ready,
                draws=draws,
                charge=None,
                plans=self._plans,
            )
        )

    def __repr__(self) -> str:
        unit = "" if self.schema.people is None else f"; unit: {self.schema.unit}"
        return f"PublicData(columns: {', '.join(self.schema)}; neighbours: {self.neighbors}{unit}; protects nobody)"


def plain_cells(cells: Any) -> NDArray[Any]:
    """Return cells of any storage as an array; coded ones as objects, with None for a missing one."""
    if not isinstance(cells, Coded):
        return np.asarray(cells)
    listed, codes = np.array([*cells.values, None], dtype=object), np.asarray(cells.codes)  # noqa: PD011
    return np.asarray(listed[np.where((codes >= 0) & (codes < len(listed) - 1), codes, len(listed) - 1)])
