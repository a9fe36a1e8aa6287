"""A release: noisy integers that remember how they were made; its JSON, and that of the fields of its question."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

from dpinfer.checks import are_texts
from dpinfer.display.report import Report, Table, count
from dpinfer.errors import DPInferError, InferenceError, ReleaseFormatError, ReleaseVersionError, shown
from dpinfer.privacy.accounting import Cost
from dpinfer.privacy.units import Neighbors
from dpinfer.release.laws import CHOICES, NoiseLaw, StageRelease
from dpinfer.schema.schema import Schema
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

_T = TypeVar("_T")

_FRACTION = re.compile(r"-?[0-9]{1,399}(/[0-9]{1,399})?")  # an exponent could fill the memory


def encode(value: Any) -> Any:
    """Write a value of a question as JSON can hold it.

    Parameters
    ----------
    value : None, bool, int, float, str, Fraction, ndarray, sequence or mapping of these, or an object with ``to_dict``

    Returns
    -------
    JSON-ready value
        `decode` reads it back, given the value's type.

    Raises
    ------
    TypeError
        If it is of another type.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.generic() | np.ndarray():
            return value.tolist()
        case Fraction():
            return str(value)
        case Mapping():
            return {str(name): encode(one) for name, one in value.items()}
        case Sequence():
            return [encode(one) for one in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"a {type(value).__name__} cannot be stored in a release")


def decode(name: str, stored: Any, expected: Any) -> Any:
    """Read what `encode` wrote.

    Parameters
    ----------
    name : str
        What the value is called, for messages.
    stored : object
    expected : type
        ``None``, ``bool``, ``int``, ``float``, ``str``, ``Fraction``, ``ndarray``, ``Any``, a ``Literal``, a union,
        ``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, X]``, or a class with ``from_dict``.

    Returns
    -------
    object

    Raises
    ------
    ReleaseFormatError
        If it is of another type: the message names the field.
    """
    origin, members = get_origin(expected), get_args(expected)
    if origin in (Union, UnionType):
        for member in members:
            with suppress(ReleaseFormatError):
                return decode(name, stored, member)
    elif origin is tuple:
        if members[1:] == (Ellipsis,) and isinstance(stored, list):
            members = members[:1] * len(stored)
        if isinstance(stored, list) and len(stored) == len(members):
            pairs = zip(stored, members, strict=True)
            return tuple(decode(f"{name}[{i}]", one, kind) for i, (one, kind) in enumerate(pairs))
    elif origin is not None and origin is not Literal:
        if isinstance(stored, dict):
            return {key: decode(f"{name}[{key!r}]", one, members[1]) for key, one in stored.items()}
    else:
        with suppress(DPInferError, KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            return _plain(stored, expected)
    words = str(getattr(expected, "__name__", expected))
    raise ReleaseFormatError(f"{name} is of a wrong type: expected {words.replace('typing.', '')}")


def _plain(stored: Any, expected: Any) -> Any:
    """Read what has no parts; `ValueError`, or what ``from_dict`` raises, where it is of another type."""
    exact = type(stored) is expected and expected in (bool, int, str)
    nothing = stored is None and expected in (None, NoneType)
    if exact or nothing or expected is Any or stored in get_args(expected):
        return stored
    if expected is float and type(stored) in (int, float) and math.isfinite(stored):
        return float(stored)
    if expected is Fraction and isinstance(stored, str) and _FRACTION.fullmatch(stored):
        return Fraction(stored)
    if expected is np.ndarray and isinstance(stored, list):
        found = np.array(stored, dtype=np.float64)
        if np.isfinite(found).all():
            return found
    if isinstance(stored, Mapping) and hasattr(expected, "from_dict"):
        return expected.from_dict(stored)
    raise ValueError(stored)


class Advice(NamedTuple):
    """A sentence on the quality of data, and the columns that it is about."""

    columns: tuple[str, ...]
    text: str


ADVICE: dict[str, Callable[[Release], tuple[Advice, ...]]] = {}
"""What reads advice from releases of a kind."""

_INFERENCES: dict[str, Callable[..., Any]] = {}


def register(name: str, infer: Callable[..., Any]) -> None:
    """Keep what turns releases of a procedure into results: ``infer(release, **options)``.

    A release names the procedure in its question.
    """
    _INFERENCES[name] = infer


def find_inference(procedure: object) -> Callable[..., Any]:
    """Return the inference for the procedure that a release was asked by; `InferenceError` names those known."""
    if isinstance(procedure, str) and (procedure in _INFERENCES or procedure in _loaded(_INFERENCES)):
        return _INFERENCES[procedure]
    known = ", ".join(sorted(_INFERENCES)) or "none"
    raise InferenceError(f"no procedure {shown(procedure)} is known: import the module that defines it; known: {known}")


def _loaded(registry: dict[str, _T]) -> dict[str, _T]:
    """Return a registry after every topic has entered its part: a release may be read before its topic is used."""
    package = import_module("dpinfer")
    for name in package.__all__:
        getattr(package, name)
    return registry


FORMAT_VERSION = 2
MAGIC = "dpinfer release"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Release:
    """What may be published: noisy sums, with all that inference from them needs and nothing confidential.

    Attributes
    ----------
    kind : str
        What it holds, e.g. "gram".
    question : mapping
        The public question that was asked, with the schema.
    stages : tuple of StageRelease
        What each stage released, in turn.
    cost : Cost
        What they cost.
    neighbors : {"add_remove", "replace_one"}
    nobs : int or None
        Number of rows where it is public (replace_one, the unit one row), else None.
    charge_ids : tuple of str
        The ledger's records of the price, one for each charge; empty for a simulated release.
    public : bool
        True if made from public data with simulated noise: it then protects nobody.
    dataset : str or None
        What the ledger calls the data; None for a simulated release.
    dataset_version : str or None
        The declared version of the data, ``PrivateData(..., version=)``; None where none was declared.
    notes : tuple of str
        What an earlier release of the same data, of their quality, advises on the columns that are read.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0), dataset="survey")
    >>> data = dpi.PrivateData(schema.sample(5000, np.random.default_rng(1)), schema, ledger)
    >>> release = dpi.mean("age", data).measure(dpi.ZCDP(0.1))  # rows are read here, and nowhere else
    >>> bool(abs(release.infer().params.iloc[0] - 50) < 5)
    True
    """

    kind: str
    question: Mapping[str, Any] = field(repr=False)
    stages: tuple[StageRelease, ...] = field(repr=False)
    cost: Cost = field(repr=False)
    neighbors: Neighbors
    nobs: int | None
    charge_ids: tuple[str, ...]
    public: bool
    dataset: str | None = None
    dataset_version: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what was asked, what it cost, and what each stage released."""
        return release_report(self).text()

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return release_report(self).html()

    @cached_property
    def schema(self) -> Schema:
        """The public schema of the data."""
        return Schema.from_dict(self.question["schema"])

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Columns that were read for it: those of its schema, or fewer where it holds the schema of others too."""
        return tuple(self.question.get("read", self.schema))

    @property
    def unit(self) -> str:
        """The unit of protection in words: "one row", or a person with how many rows."""
        return self.schema.unit

    @property
    def sums(self) -> tuple[StageRelease, ...]:
        """The stages that released noisy numbers; of a release of choices alone these."""
        return tuple(stage for stage in self.stages if stage.law.family not in CHOICES) or self.stages

    @property
    def choices(self) -> tuple[StageRelease, ...]:
        """The stages that released choices."""
        return tuple(stage for stage in self.stages if stage.law.family in CHOICES)

    @property
    def values(self) -> tuple[int, ...]:
        """The noisy sums of all stages."""
        return tuple(chain.from_iterable(stage.values for stage in self.sums))

    @property
    def steps(self) -> tuple[float, ...]:
        """Size of one integer step of each."""
        return tuple(chain.from_iterable(stage.steps for stage in self.sums))

    @property
    def names(self) -> tuple[str, ...]:
        """What each is."""
        return tuple(chain.from_iterable(stage.names for stage in self.sums))

    @property
    def law(self) -> NoiseLaw:
        """The noise they carry."""
        if len(self.sums) == 1:
            return self.sums[0].law
        first = self.sums[0].law
        scales = tuple(chain.from_iterable(stage.law.scales for stage in self.sums))
        return NoiseLaw(first.family, scales, first.draws, first.shared)

    @property
    def array(self) -> NDArray[np.float64]:
        """The noisy sums in units of the scaled features, (m,)."""
        return np.concatenate([stage.array for stage in self.sums])

    @property
    def noise_variances(self) -> NDArray[np.float64]:
        """Variance of the noise in `array`, (m,)."""
        return np.asarray(self.law.variances * np.asarray(self.steps) ** 2)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What it says of the quality of data, if that was asked: sentences with their columns, beyond noise alone."""
        advise = ADVICE.get(self.kind) or _loaded(ADVICE).get(self.kind)
        return () if advise is None else advise(self)

    def with_notes(self, advice: Iterable[Advice]) -> Release:
        """Return the release with the sentences that are about columns that were read for it."""
        read = set(self.columns_read)
        return replace(self, notes=tuple(one.text for one in advice if set(one.columns) <= read))

    def infer(self, **options: Any) -> Any:
        """Infer from the release: free, repeatable, without any row.

        Parameters
        ----------
        **options
            Options of the inference, such as ``inference="wald"`` or ``target="data"``.
        """
        return find_inference(self.question.get("procedure"))(self, **options)

    def simulate(self, rng: np.random.Generator) -> Release:
        """Return a release of the same kind with fresh simulated noise added to these values."""
        noisy = self.sums
        stages = tuple(one.simulate(rng) if any(one is other for other in noisy) else one for one in self.stages)
        return replace(self, stages=stages, charge_ids=(), public=True)

    def to_json(self) -> str:
        """Return the release as readable JSON, without loss."""
        return json.dumps(
            {
                "format": MAGIC,
                "version": FORMAT_VERSION,
                "kind": self.kind,
                "guarantee": "none (public data)" if self.public else self.cost.describe(),
                "neighbors": self.neighbors,
                "nobs": self.nobs,
                "dataset": self.dataset,
                **({} if self.dataset_version is None else {"dataset_version": self.dataset_version}),
                "charge_ids": list(self.charge_ids),
                "public": self.public,
                "cost": self.cost.to_dict(),
                "question": dict(self.question),
                "stages": [stage.to_dict() for stage in self.stages],
                **({"notes": list(self.notes)} if self.notes else {}),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Read what `to_json` wrote.

        Raises
        ------
        ReleaseFormatError
            If the text is no release, or is damaged.
        ReleaseVersionError
            If another version of the format, older or newer, is written in it.
        """
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReleaseFormatError(f"not a release, or cut short: {error}") from error
        if not isinstance(stored, dict) or stored.get("format") != MAGIC:
            raise ReleaseFormatError('not a release: the text does not say "format": "dpinfer release"')
        version = stored.get("version")
        if type(version) is not int or version < 1:
            raise ReleaseFormatError(f"the release is damaged: version={shown(version)}")
        if version < FORMAT_VERSION:
            raise ReleaseVersionError(
                f"the release has format version {version}, which this dpinfer does not read: infer from it with the "
                "version of dpinfer that wrote it (0.1)"
            )
        if version > FORMAT_VERSION:
            raise ReleaseVersionError(
                f"the release has format version {version!r}; this dpinfer reads up to {FORMAT_VERSION}: update dpinfer"
            )
        try:
            stored = {"dataset": None, "dataset_version": None, "notes": [], **stored}
            plain = {name: decode(name, stored[name], kind) for name, kind in _PLAIN.items()}
            _check_parts(plain, stored["stages"], stored["question"])
            stages, cost = map(StageRelease.from_dict, stored["stages"]), Cost.from_dict(stored["cost"])
            release = cls(question=stored["question"], stages=tuple(stages), cost=cost, **plain)
            _ = release.schema
            laws = {(stage.law.family, stage.law.draws) for stage in release.sums}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DPInferError) as error:
            raise ReleaseFormatError(f"the release is damaged: {type(error).__name__}: {error}") from error
        if len(laws) > 1:
            raise ReleaseFormatError("the release is damaged: law: noisy sums of one release have one kind of noise")
        return release

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to a file, whole or not at all.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        OSError
            If nothing can be written there, such as where the folder does not exist.
        """
        write_whole(path, self.to_json().encode("utf-8"))


_PLAIN = {
    **dict.fromkeys(("dataset", "dataset_version"), str | None),
    **dict.fromkeys(("charge_ids", "notes"), tuple[str, ...]),
    **{"kind": str, "neighbors": Neighbors, "nobs": int | None, "public": bool},
}
"""Types of what a release holds beside its question, stages and cost."""


def _check_parts(plain: Mapping[str, Any], stages: object, question: object) -> None:
    """Refuse parts that do not go together, by the name of one."""
    nobs, fields = plain["nobs"], question if isinstance(question, dict) else {}
    schema, read = fields.get("schema"), fields.get("read", [])
    of_people = isinstance(schema, dict) and schema.get("people") is not None  # their number of rows is never public
    right = {
        "stages": isinstance(stages, list) and len(stages) > 0,
        "nobs": (nobs is not None) == (plain["neighbors"] == "replace_one" and not of_people),
        "the number of rows": nobs is None or 0 <= nobs <= 2**53,
        "charge_ids": all(plain["charge_ids"]),
        "read": isinstance(read, list) and are_texts(read),
        "question": isinstance(fields.get("text"), str),
    }
    wrong = next((name for name, holds in right.items() if not holds), None)
    if wrong is not None:
        raise ReleaseFormatError(f"{wrong} is of a wrong type")


def read_release(path: str | os.PathLike[str]) -> Release:
    """Read a saved release, to infer from it without any row.

    Parameters
    ----------
    path : path-like
        A file that `Release.save` wrote, or that was saved from a page of `report`; it may be compressed by gzip.

    Returns
    -------
    Release

    Raises
    ------
    ReleaseFormatError
        If there is no such file, or it is no release, or damaged.
    ReleaseVersionError
        If another version of the format, older or newer, is written in it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> results = dpi.mean("age", dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results.release.save(f"{folder}/age.json")
    ...     again = dpi.read_release(f"{folder}/age.json").infer()
    >>> bool(again.params.iloc[0] == results.params.iloc[0])
    True
    """
    try:
        content = Path(path).read_bytes()
        text = (gzip.decompress(content) if content.startswith(_GZIP) else content).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ReleaseFormatError(f"{os.fspath(path)!r} cannot be read as a release: {error}") from error
    return Release.from_json(text)


_NAMED = 5
"""Names of released numbers that are shown for each stage."""


def release_report(release: Release) -> Report:
    """Return what was asked, what it cost, and what each stage released."""
    facts = {
        "question": str(release.question.get("text", release.kind)),
        "price": str(release.cost.price),
        "guarantee": "none (public data)" if release.public else release.cost.describe(),
        "neighbours": f"{release.neighbors}, of {release.unit}",
        "data set": release.dataset,
        "ledger charges": ", ".join(release.charge_ids),
    }
    rows = []
    for place, one in enumerate(release.stages, 1):
        names = ", ".join(one.names[:_NAMED]) + (", ..." if len(one.names) > _NAMED else "")
        rows.append((str(place), count(len(one.values)), one.law.family, names))
    table = Table(("stage", "numbers", "noise", "names"), tuple(rows), frozenset({2, 3}))
    return Report(f"Release: {release.kind}", tuple((name, text) for name, text in facts.items() if text), (table,))


@dataclass(frozen=True, slots=True)
class SeveralCosts:
    """Prices in different units, which have no sum.

    Attributes
    ----------
    parts : tuple of Cost
    """

    parts: tuple[Cost, ...]

    @property
    def price(self) -> str:
        """Every price that was asked for."""
        return " and ".join(str(cost.price) for cost in self.parts)

    def describe(self) -> str:
        """Return every guarantee."""
        return "; and ".join(cost.describe() for cost in self.parts)


@dataclass(frozen=True, slots=True)
class CombinedRelease:
    """What results print of several releases.

    Attributes
    ----------
    cost : Cost or SeveralCosts
        The sum of all costs, where their units agree.
    neighbors : {"add_remove", "replace_one"}
    charge_ids : tuple of str
        All charges, in the order of the releases.
    public : bool
    unit : str
        The unit of protection in words.
    dataset : str or None
        What the ledger calls the data, where that is known.
    releases : tuple of Release
        The releases, where they are known.
    """

    cost: Cost | SeveralCosts
    neighbors: Neighbors
    charge_ids: tuple[str, ...]
    public: bool
    unit: str = "one row"
    dataset: str | None = None
    releases: tuple[Release, ...] = ()


AnyRelease = Release | CombinedRelease
"""What results are made from."""
