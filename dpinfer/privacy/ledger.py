"""The ledger, the one place where a privacy budget is stored and spent."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from dpinfer.checks import MAYBE, TRUTH, named
from dpinfer.display.report import Report, Table, count
from dpinfer.errors import LedgerError, LedgerMismatchError, OptionError, ReleaseLostError, type_of
from dpinfer.privacy.filters import Entry, filter_for
from dpinfer.privacy.store import Account, Charge, FileStore, Header, MemoryStore, Store, StoredRelease, found_header
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from dpinfer.privacy.accounting import Cost

_readers: list[Callable[[str], Any]] = []


def read_releases_with(reader: Callable[[str], Any]) -> None:
    """Set the function that reads a release from text; called by the layer of releases above this one."""
    _readers[:] = [reader]


_COLUMNS = ("id", "time", "description", "price", "amount", "reserve")


class Ledger:
    """A privacy budget for one confidential data set, stored in a file that all processes share.

    Opens the file if it is a ledger with exactly these properties, and creates it if there never was one.

    Parameters
    ----------
    path : str or os.PathLike
        The file. Its folder must exist, on a local disk (network file systems may not lock).
    dataset : str
        The public name of the confidential data. It guards against the use of another data set's ledger.
    budget : PureDP, ZCDP, GDP or ApproxDP
        The total budget for these data.
    neighbors : {"add_remove", "replace_one"}
        The definition of neighbouring data sets, for every charge.
    currency : str, optional
        For an `ApproxDP` budget ``"gdp"`` (the default; adds mu squared, best for Gaussian noise) or ``"basic"`` (adds
        epsilon and delta, for mostly pure mechanisms). The other units have one currency each: ``"epsilon"``,
        ``"rho"``, ``"mu_squared"``.
    create : bool, optional
        True creates a new ledger, and refuses an existing file. False opens an existing one and refuses to create one,
        which is safest for every run but the first. By default an existing ledger is opened, and a new one is created
        if there never was one; `created` tells which.
    keep : bool
        True makes the ledger store every release from now on, whoever opens it. `releases` lists them, and
        ``reuse=True`` of a fit reads them. False leaves the ledger unchanged.

    Raises
    ------
    LedgerMismatchError
        If the file is a ledger with other properties.
    LedgerError
        If the file is empty, damaged or not a ledger; if it is missing though its marker exists; or if ``create`` does
        not allow the action.
    OptionError
        If an argument is invalid.

    Notes
    -----
    The ledger is a privacy filter: charges may be chosen adaptively, and together never exceed the budget. A charge is
    on disk before `charge` returns, so a later crash never restores budget. Sums are exact. ``PureDP``: sum of epsilon.
    ``ZCDP``: sum of rho. ``GDP``: sum of mu^2; the guarantee is mu-GDP up to the total variation `tau`. ``ApproxDP``,
    currency gdp: sum of mu^2, while (1 + e^epsilon) times the summed total variation stays within a thousandth of
    delta. Sources: Rogers, Roth, Ullman & Vadhan 2016; Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023;
    Smith & Thakurta 2022.

    If a ledger file is emptied or lost, the record of spending is lost, and a new ledger would grant the whole budget
    again. So an empty file is refused. A new ledger also gets a marker file, its name with ``.marker``: if the marker
    exists without the ledger, no new one is created. If both are deleted, the default creates a new ledger, and only
    ``create=False`` detects it. Every charge is checked when it is read: its amount must match its cost.

    Threads and forked processes may share a ledger file. A ledger in memory is for one process.

    Examples
    --------
    >>> from dpinfer.privacy.accounting import laplace_cost
    >>> from dpinfer.privacy.units import PureDP
    >>> ledger = Ledger.in_memory(PureDP(0.3))
    >>> for _ in range(3):
    ...     identifier = ledger.charge(laplace_cost(PureDP(0.1)), "a count")
    >>> ledger.remaining
    PureDP(epsilon=0.0)
    """

    _account: Account
    _created: bool

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        budget: Privacy,
        neighbors: Neighbors = "add_remove",
        currency: str | None = None,
        create: bool | None = None,
        keep: bool = False,
    ) -> None:
        header = _header(dataset, budget, neighbors, currency, keep)
        MAYBE.check("create", create)
        store = FileStore(path)
        made = create is not False and store.make(header)
        if create and not made:
            raise LedgerError(f"{store} already exists: create=False opens it")
        self._bind(store, found_header(store), created=made)
        if (found := self._account.header)[1:] != header[1:]:
            there = (repr(found.dataset), str(self.budget), found.neighbors, found.currency)
            here = (repr(dataset), str(budget), header.neighbors, header.currency)
            pairs = zip(Header._fields[1:], there, here, strict=True)
            differing = [f"its {name} is {one}, not {other}" for name, one, other in pairs if one != other]
            raise LedgerMismatchError(f"{store} has other properties: {'; '.join(differing)}")
        if keep:
            self._account.start_keeping()

    @classmethod
    def in_memory(
        cls,
        budget: Privacy,
        *,
        neighbors: Neighbors = "add_remove",
        dataset: str = "in memory",
        currency: str | None = None,
        keep: bool = False,
    ) -> Self:
        """Create a ledger in memory, which is lost when the process ends.

        Parameters
        ----------
        budget, neighbors, dataset, currency, keep
            As for `Ledger`.

        Returns
        -------
        Ledger
            It cannot be copied, pickled or used in a forked process: a copy would double the budget.

        Raises
        ------
        OptionError
            If an argument is invalid.
        """
        ledger = cls.__new__(cls)
        store, header = MemoryStore(), _header(dataset, budget, neighbors, currency, keep)
        ledger._bind(store, header, created=store.make(header))
        if keep:
            ledger._account.start_keeping()
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open an existing ledger file, with the properties stored in it.

        Parameters
        ----------
        path : str or os.PathLike
            The file.

        Returns
        -------
        Ledger

        Raises
        ------
        LedgerError
            If there is no such file or it is not a ledger.
        """
        ledger = cls.__new__(cls)
        store = FileStore(path)
        ledger._bind(store, found_header(store), created=False)
        return ledger

    def _bind(self, store: Store, header: Header, *, created: bool) -> None:
        self._account, self._created = Account(store, header), created

    @property
    def account(self) -> Account:
        """The account that `PrivateData` charges."""
        if type(self) is not Ledger:  # one that might charge less
            raise OptionError("ledger", type_of(self), "a dpinfer Ledger: Ledger(...) or Ledger.in_memory(...)")
        return self._account

    def _read(self) -> tuple[Entry, list[Charge]]:
        with self._account.store.transaction(write=False) as connection:
            return self._account.total(connection)

    @property
    def created(self) -> bool:
        """Whether this object created the ledger; False if it opened an existing one."""
        return self._created

    @property
    def path(self) -> str | None:
        """The path of the file, or None for a ledger in memory."""
        store = self._account.store
        return str(store.path) if isinstance(store, FileStore) else None

    @property
    def dataset(self) -> str:
        """The name of the confidential data."""
        return self._account.header.dataset

    @property
    def budget(self) -> Privacy:
        """The total budget."""
        return self._account.filter.budget

    @property
    def neighbors(self) -> Neighbors:
        """The definition of neighbouring data sets, for every charge."""
        return self._account.neighbors

    @property
    def currency(self) -> str:
        """The quantity that charges add: "epsilon", "rho", "mu_squared", or for ApproxDP "gdp" or "basic"."""
        return self._account.filter.currency

    @property
    def spent(self) -> Privacy:
        """The budget spent, in the unit of the budget, rounded up.

        For a basic ledger that has spent no delta it is a `PureDP`.
        """
        return self._account.filter.spent(self._read()[0])

    @property
    def remaining(self) -> Privacy:
        """The remaining budget, in the unit of the budget, rounded down so that it can be spent.

        For a basic ledger with no delta left it is a `PureDP`.
        """
        return self._account.filter.remaining(self._read()[0])

    @property
    def tau(self) -> float:
        """Summed total variation of the charges if the ledger adds mu squared (GDP, ApproxDP), else 0."""
        return float(self._read()[0].reserve) if self.currency in {"mu_squared", "gdp"} else 0.0

    def charge(self, cost: Cost, description: str, *, unit: str | None = None) -> str:
        """Spend budget, before the mechanism draws any noise.

        Parameters
        ----------
        cost : Cost
            The privacy cost of the mechanism.
        description : str
            What it measures; stored and public.
        unit : str, optional
            The unit of protection: rows, or people identified by a column. The first charge that states it fixes it for
            the ledger.

        Returns
        -------
        str
            The unique id of the charge, which is then on disk.

        Raises
        ------
        BudgetExceededError
            If it exceeds the remaining budget; nothing is stored.
        NotProvedError
            If the cost has no guarantee in the currency of this ledger.
        LedgerMismatchError
            If the ledger's charges protect another unit: amounts for rows and for people do not add up.
        LedgerError
            If the ledger cannot be written; then draw nothing.
        OptionError
            If an argument is invalid.
        """
        return self._account.charge(cost, description, unit=unit)

    def can_afford(self, cost: Cost) -> None:
        """Check that the remaining budget covers a charge, without making it.

        Parameters
        ----------
        cost : Cost
            The privacy cost of the mechanism.

        Raises
        ------
        BudgetExceededError, NotProvedError, LedgerError, OptionError
            As `charge` would.
        """
        entry = self._account.entry(cost)
        with self._account.store.transaction(write=False) as connection:
            self._account.check(connection, cost, entry)

    def charges(self) -> pd.DataFrame:
        """Return all charges as a table.

        Returns
        -------
        DataFrame
            One row per charge, in order: ``id``, ``time`` (UTC), ``description``, ``price`` (the privacy parameters
            requested), ``amount`` (in the currency of the ledger) and ``reserve`` (total variation if the ledger adds
            mu squared, delta if it is basic, otherwise 0).
        """
        _, made = self._read()
        rows = [
            (c.id, pd.Timestamp(c.time).tz_convert("UTC"), c.description, c.cost.price, c.amount, c.reserve)
            for c in made
        ]
        kinds = dict(zip(_COLUMNS, ("str", "datetime64[us, UTC]", "str", "object", "float64", "float64"), strict=True))
        frame = pd.DataFrame(rows, columns=list(_COLUMNS)).astype(kinds)
        frame.attrs["currency"] = self.currency
        return frame

    @property
    def identifier(self) -> str:
        """A random name, unique to this ledger."""
        return self._account.header.identifier

    @property
    def keeps(self) -> bool:
        """Whether the ledger stores every release; see ``keep``."""
        return self._account.keeps

    def charged(self, id: str) -> bool:
        """Return whether the ledger holds a charge with this id.

        Parameters
        ----------
        id : str

        Returns
        -------
        bool
        """
        return any(charge.id == id for charge in self._read()[1])

    def releases(self) -> pd.DataFrame:
        """List the releases since the ledger began to store them, at no privacy cost.

        Returns
        -------
        DataFrame
            One row per charge, in order: ``id`` of the charge, ``time`` (UTC), ``description``, ``price``, ``dataset``,
            ``version`` (that of the data, or None), and ``stored``: False if the release was charged but lost, or is
            still being measured. Empty if the ledger stores no releases.

        Raises
        ------
        LedgerError
            If the ledger cannot be read.
        """
        stored = {one.charge: one for one in self.kept()}
        made = self.charges()
        made = made[made["id"].isin(stored)].drop(columns=["amount", "reserve"]).reset_index(drop=True)
        versions = [json.loads(stored[name].request).get("version") for name in made["id"]]
        return made.assign(
            dataset=pd.Series([self.dataset] * len(made), dtype="str"),
            version=pd.Series(versions, dtype="object"),
            stored=pd.Series([stored[name].release is not None for name in made["id"]], dtype="bool"),
        )

    def release(self, id: str) -> Any:
        """Return a stored release, at no privacy cost and without reading a row.

        Parameters
        ----------
        id : str
            The id of its charge, from `releases`.

        Returns
        -------
        Release

        Raises
        ------
        ReleaseLostError
            If it was charged but not stored.
        OptionError
            If the ledger stores no release for this charge.
        ReleaseFormatError
            If it is damaged.
        """
        found = next((one for one in self.kept() if one.charge == id), None)
        if found is None:
            raise OptionError("id", id, "the id of a charge that .releases() lists")
        if found.release is None:
            raise ReleaseLostError(
                f"the release of charge {id} is not in the ledger: it is being measured, or was lost after the charge",
                found.charge,
            )
        return _readers[0](found.release)

    def kept(self) -> list[StoredRelease]:
        """Return the stored releases as text, oldest first; `releases` lists them in readable form."""
        return self._account.kept()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise LedgerError(
                "a ledger in memory cannot be copied or pickled: each copy would spend the whole budget; "
                "use a ledger file"
            )
        return type(self).open, (self.path,)

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        facts = ledger_facts(self)
        if len(facts) == 2:
            return Report("Ledger", facts).html()
        made = self.charges()
        rows = [
            (f"{time:%Y-%m-%d %H:%M}", text, str(price))
            for time, text, price in made[["time", "description", "price"]].tail(_SHOWN).itertuples(index=False)
        ]
        left = len(made) - len(rows)
        notes = (f"{count(left)} earlier charges are in charges().",) if left else ()
        table = Table(("charged (UTC)", "for", "price"), tuple(rows), frozenset({1, 2}))
        return Report("Ledger", facts, (table,) if rows else (), notes).html()

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else self.path
        try:
            total, made = self._read()
        except LedgerError as error:
            return f"<Ledger {where}: {error}>"
        lines = [
            f"Ledger {where}{', new' if self.created else ''}",
            f"  dataset    {self.dataset!r}, neighbors {self.neighbors!r}, currency {self.currency!r}",
            f"  budget     {self.budget}",
            f"  spent      {self._account.filter.spent(total)} in {len(made)} charges",
            f"  remaining  {self._account.filter.remaining(total)}",
        ]
        if self.currency == "mu_squared" and total.reserve:
            lines.append(f"  within total variation {float(total.reserve):.3g}")
        return "\n".join(lines)


def _header(dataset: str, budget: Privacy, neighbors: Neighbors, currency: str | None, keep: bool) -> Header:
    """Check the properties of a ledger, and write them as text."""
    TRUTH.check("keep", keep)
    named("a name for the confidential data").check("dataset", dataset)
    if type(neighbors) is not str or neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    chosen = filter_for(budget, currency).currency
    return Header(uuid.uuid4().hex, dataset, json.dumps(budget.to_dict()), neighbors, chosen)


_SHOWN = 20
"""Charges that are shown: the last ones."""


def ledger_facts(ledger: Ledger) -> tuple[tuple[str, str], ...]:
    """Return the budget and spending; if the file cannot be read, the reason."""
    where = "in memory" if ledger.path is None else str(ledger.path)
    try:
        spent, remaining, made = str(ledger.spent), str(ledger.remaining), len(ledger.charges())
    except LedgerError as error:
        return (("ledger", where), ("cannot be read", str(error)))
    return (
        ("ledger", where),
        ("dataset", ledger.dataset),
        ("relation", f"{ledger.neighbors}, counted in {ledger.currency}"),
        ("budget", str(ledger.budget)),
        ("spent", f"{spent} in {count(made)} charge{'' if made == 1 else 's'}"),
        ("remaining", remaining),
    )
