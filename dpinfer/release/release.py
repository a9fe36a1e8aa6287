"""A release: noisy integers with a record of how they were made, and its JSON form."""

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
    """Return a value of a question in JSON-ready form.

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
        If it has another type.
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
    """Read the output of `encode`.

    Parameters
    ----------
    name : str
        Name of the value, for messages.
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
        If it has another type; the message names the field.
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
    """Read a scalar; raises `ValueError`, or what ``from_dict`` raises, for another type."""
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
    """A sentence on the quality of data, and the columns that it concerns."""

    columns: tuple[str, ...]
    text: str


ADVICE: dict[str, Callable[[Release], tuple[Advice, ...]]] = {}
"""What reads advice from releases of a kind."""

_INFERENCES: dict[str, Callable[..., Any]] = {}


def register(name: str, infer: Callable[..., Any]) -> None:
    """Register the inference for releases of a procedure: ``infer(release, **options)``.

    A release names the procedure in its question.
    """
    _INFERENCES[name] = infer


def find_inference(procedure: object) -> Callable[..., Any]:
    """Return the inference for the procedure of a release; `InferenceError` lists those known."""
    if isinstance(procedure, str) and (procedure in _INFERENCES or procedure in _loaded(_INFERENCES)):
        return _INFERENCES[procedure]
    known = ", ".join(sorted(_INFERENCES)) or "none"
    raise InferenceError(f"no procedure {shown(procedure)} is known: import the module that defines it; known: {known}")


def _loaded(registry: dict[str, _T]) -> dict[str, _T]:
    """Return a registry after loading every topic, since a release may be read before its topic is used."""
    package = import_module("dpinfer")
    for name in package.__all__:
        getattr(package, name)
    return registry


FORMAT_VERSION = 2
MAGIC = "dpinfer release"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Release:
    """Noisy sums that may be published, with all that inference needs and nothing confidential.

    Attributes
    ----------
    kind : str
        Kind of contents, e.g. "gram".
    question : mapping
        The public question, with the schema.
    stages : tuple of StageRelease
        The release of each stage, in order.
    cost : Cost
        Their privacy cost.
    neighbors : {"add_remove", "replace_one"}
    nobs : int or None
        Number of rows if public (replace_one, with rows as the unit), else None.
    charge_ids : tuple of str
        Ids of the charges in the ledger; empty for a simulated release.
    public : bool
        True if made from public data with simulated noise, which protects nobody.
    dataset : str or None
        Name of the data in the ledger; None for a simulated release.
    dataset_version : str or None
        The declared version of the data, ``PrivateData(..., version=)``; None if none was declared.
    notes : tuple of str
        Advice on the columns read, from an earlier quality release of the same data.

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
        """Return the question, the privacy cost and the release of each stage as text."""
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
        """The columns that were read: all those of its schema, or some of them."""
        return tuple(self.question.get("read", self.schema))

    @property
    def unit(self) -> str:
        """The unit of protection in words: "one row", or a person with a number of rows."""
        return self.schema.unit

    @property
    def sums(self) -> tuple[StageRelease, ...]:
        """The stages that released noisy numbers, or choices if it holds nothing else."""
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
        """The size of one integer step of each noisy sum."""
        return tuple(chain.from_iterable(stage.steps for stage in self.sums))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each noisy sum."""
        return tuple(chain.from_iterable(stage.names for stage in self.sums))

    @property
    def law(self) -> NoiseLaw:
        """The distribution of the noise in the sums."""
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
        """The significant findings of a data-quality release: sentences with their columns."""
        advise = ADVICE.get(self.kind) or _loaded(ADVICE).get(self.kind)
        return () if advise is None else advise(self)

    def with_notes(self, advice: Iterable[Advice]) -> Release:
        """Return the release with those of the given sentences that concern columns it read."""
        read = set(self.columns_read)
        return replace(self, notes=tuple(one.text for one in advice if set(one.columns) <= read))

    def infer(self, **options: Any) -> Any:
        """Infer from the release: repeatable, at no privacy cost and without reading a row.

        Parameters
        ----------
        **options
            Inference options, such as ``inference="wald"`` or ``target="data"``.
        """
        return find_inference(self.question.get("procedure"))(self, **options)

    def simulate(self, rng: np.random.Generator) -> Release:
        """Return a release of the same kind with fresh simulated noise added to these values."""
        noisy = self.sums
        stages = tuple(one.simulate(rng) if any(one is other for other in noisy) else one for one in self.stages)
        return replace(self, stages=stages, charge_ids=(), public=True)

    def to_json(self) -> str:
        """Return the release as readable, lossless JSON; `ReleaseFormatError` if a field cannot be stored."""
        stored = {
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
        }
        try:
            return json.dumps(stored, indent=1)
        except (TypeError, ValueError, RecursionError) as error:  # whose notes may hold what was given
            raise ReleaseFormatError(f"the release cannot be stored: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Read the output of `to_json`.

        Raises
        ------
        ReleaseFormatError
            If the text is not a release, or is damaged.
        ReleaseVersionError
            If it states another version of the format, older or newer.
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
        """Write `to_json` to a file, atomically.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        OSError
            If the file cannot be written, for example because the folder does not exist.
        """
        write_whole(path, self.to_json().encode("utf-8"))


_PLAIN = {
    **dict.fromkeys(("dataset", "dataset_version"), str | None),
    **dict.fromkeys(("charge_ids", "notes"), tuple[str, ...]),
    **{"kind": str, "neighbors": Neighbors, "nobs": int | None, "public": bool},
}
"""Types of what a release holds beside its question, stages and cost."""


def _check_parts(plain: Mapping[str, Any], stages: object, question: object) -> None:
    """Refuse parts that contradict each other, naming one of them."""
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
    """Read a saved release, from which inference needs no rows.

    Parameters
    ----------
    path : path-like
        A file written by `Release.save`, or saved from a page of `report`; it may be compressed with gzip.

    Returns
    -------
    Release

    Raises
    ------
    ReleaseFormatError
        If the file does not exist, is not a release, or is damaged.
    ReleaseVersionError
        If it states another version of the format, older or newer.

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
    """Return a report of the question, the privacy cost and the release of each stage."""
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
    """Costs in different units, which have no sum.

    Attributes
    ----------
    parts : tuple of Cost
    """

    parts: tuple[Cost, ...]

    @property
    def price(self) -> str:
        """The privacy parameters of every part."""
        return " and ".join(str(cost.price) for cost in self.parts)

    def describe(self) -> str:
        """Return every guarantee."""
        return "; and ".join(cost.describe() for cost in self.parts)


@dataclass(frozen=True, slots=True)
class CombinedRelease:
    """The facts about several releases that results print.

    Attributes
    ----------
    cost : Cost or SeveralCosts
        The sum of all costs, if their units agree.
    neighbors : {"add_remove", "replace_one"}
    charge_ids : tuple of str
        All charges, in the order of the releases.
    public : bool
    unit : str
        The unit of protection in words.
    dataset : str or None
        Name of the data in the ledger, if known.
    releases : tuple of Release
        The releases, if known.
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
