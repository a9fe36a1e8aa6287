"""The base of all procedures: a frozen question that measures data and infers from releases."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, fields, replace
from functools import lru_cache
from itertools import takewhile
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

import numpy as np
import pandas as pd

from dpinfer.checks import of_type, one_of, require
from dpinfer.display.report import Report, Table
from dpinfer.errors import (
    DPInferError,
    InferenceError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    names_of,
)
from dpinfer.kernel.measurement import Measurement, measured_in_words, noise_in_words, price_procedure
from dpinfer.kernel.stage import Context, Data, Slot, Stage
from dpinfer.procedures.keeping import keep
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import REPLICATES, SEED, TARGET, check_values, inferred, unstored
from dpinfer.release import Release, StageRelease
from dpinfer.release.laws import CHOICES
from dpinfer.release.release import decode, encode, find_inference, register
from dpinfer.results.base import Estimates
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import METHODS

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from dpinfer.kernel.price import PricedStage
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.options import Contrasts
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.inference import BatchEstimates


_LARGEST = 1e150
"""Settings of stages are no larger: columns may be as small as that over their unit."""


def check_stage(asked: Stage, held: StageRelease) -> None:
    """Refuse a stage of a release whose settings or sums do not match its question.

    Raises
    ------
    ReleaseFormatError
    """
    for name, value in held.settings.items():
        try:
            numbers = abs(value) if type(value) is float else np.abs(np.asarray(value, dtype=np.float64))
            right = bool(np.all(numbers <= _LARGEST))
        except (ArithmeticError, TypeError, ValueError):
            right = False
        if not right:
            raise ReleaseFormatError(f"settings: {name} is not made of finite numbers")
    if asked.measure.names != held.names:
        raise ReleaseFormatError("the sums of the release are not those that its question asks for")
    if asked.settings.keys() != held.settings.keys():
        raise ReleaseFormatError(
            "settings: not those of the stages. Earlier versions had others: such a release can be read, but this "
            "version does not infer from it"
        )
    for name, mine in asked.settings.items():
        if np.shape(mine) != np.shape(held.settings[name]):
            raise ReleaseFormatError(f"settings: {name} is of a wrong shape")


def context_of(release: Release) -> Context:
    """Return the public facts of the run that made a release."""
    return Context(release.schema, release.neighbors, release.cost.price, release.nobs, release.public)


def read_question(release: Release) -> Procedure:
    """Return the question that a release was made for, bound to it.

    Raises
    ------
    InferenceError
        If its procedure is unknown.
    ReleaseFormatError
        If the question is damaged.
    """
    found: Procedure = find_inference(release.question.get("procedure")).__self__.from_release(release)  # type: ignore[attr-defined]
    return found


@lru_cache(maxsize=128)
def stored_fields(cls: type[Procedure]) -> tuple[Field[Any], ...]:
    """Fields of a question that releases hold."""
    return tuple(one for one in fields(cls) if one.metadata.get("role") != "unstored")


@lru_cache(maxsize=128)
def hints(cls: type[Procedure]) -> dict[str, Any]:
    """Return the declared types of a question's fields."""
    found: dict[str, Any] = get_type_hints(cls)
    return found


_GAP = re.compile(r" {2,}")
_HEADS = ("test", "replicates", "balance", "instead", "ranks", "error", "region", "native", "row_norm")
"""Names of facts that procedures tell besides those of the measurement."""


class Explanation(str):
    """A description of a measurement, before any budget is spent; it behaves as a string.

    A notebook shows it as tables. It contains nothing from the rows.

    Parameters
    ----------
    text : str
        The printed text.
    measurement : Measurement
        The measurement that it describes.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> told = dpi.mean("age").explain(dpi.ZCDP(0.1), schema=dpi.Schema(age=dpi.Real(0, 100)))
    >>> told.splitlines()[0], list(told.stages["share"])
    ('measures     3 sums: 1, age - 50.0, (age - 50.0) ** 2', [1.0])
    """

    __slots__ = ("_measurement",)

    _measurement: Measurement

    def __new__(cls, text: str, measurement: Measurement) -> Self:
        """Take the text as it is."""
        found = super().__new__(cls, text)
        found._measurement = measurement
        return found

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickle and copy as the text alone."""
        return str, (str(self),)

    def __repr__(self) -> str:
        return str(self)

    @property
    def measurement(self) -> Measurement:
        """The planned measurement, in the kernel's own terms."""
        return self._measurement

    @property
    def question(self) -> str:
        """The question in one line."""
        return self._measurement.text

    @property
    def privacy(self) -> Privacy:
        """The privacy parameters."""
        return self._measurement.context.privacy

    @property
    def neighbors(self) -> Neighbors:
        """The definition of neighbouring data sets."""
        return self._measurement.neighbors

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self._measurement.columns

    @property
    def stages(self) -> pd.DataFrame:
        """A row per stage: "measures", "share" of the budget, "adaptive", "bound", "noise", "numbers" released."""
        told = self._measurement
        rows = [
            (measured_in_words(stage), float(slot.share), slot.adaptive, told.bound_of(stage), noise_in_words(stage),
             len(stage.names))
            for slot, stage in zip(told.slots, told.stages, strict=True)
        ]  # fmt: skip
        index = pd.RangeIndex(1, len(rows) + 1, name="stage")
        return pd.DataFrame(rows, index, ["measures", "share", "adaptive", "bound", "noise", "numbers"])

    @property
    def noise(self) -> pd.DataFrame:
        """A row per released number: "family" of its noise, and "scale" and "std dev" in its units.

        "std dev" is empty for a choice, since its noisy scores are not released.
        """
        frames = []
        for place, stage in enumerate(self._measurement.stages, 1):
            law, steps = stage.law, pd.Series(stage.steps, dtype=float)
            chosen = law.family in CHOICES
            spread = float("nan") if chosen else pd.Series(law.variances, dtype=float) ** 0.5 * steps
            part = pd.DataFrame({"stage": place, "family": law.family, "scale": pd.Series(law.scales) * steps})
            frames.append(part.assign(**{"std dev": spread}).set_axis(list(stage.names)))
        return pd.concat(frames)

    def _report(self) -> Report:
        told = self._measurement
        own = {"stage", "bound", "noise", *(["measures"] if len(told.stages) == 1 else [])}  # which the stages tell
        facts = [fact for fact in told.facts if fact[0].split()[0] not in own]
        if ("measures", told.text) not in facts:
            facts.insert(0, ("question", told.text))
        table = Table.of(self.stages.drop(columns=[] if self.stages["adaptive"].any() else "adaptive"))
        described = set(told.describe().splitlines())
        left = [line for line in self.splitlines() if line not in described and not line.startswith("question ")]
        notes, tables = _read(left)
        return Report(f"{told.text}, at {self.privacy}", tuple(facts), (table, *tables), tuple(notes))

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return self._report().html()


def _read(lines: list[str]) -> tuple[list[str], list[Table]]:
    """Read the expected results: sentences, and tables below lines that end with a colon."""
    notes: list[str] = []
    tables: list[Table] = []
    started = False  # whether the last note goes on in the next line
    for place, line in enumerate(lines):
        if line.startswith(" ") or _GAP.search(line):
            continue
        begun = " ".join([notes.pop(), line]) if started else line
        below = list(takewhile(lambda one: one.startswith(" ") or _GAP.search(one), lines[place + 1 :]))
        rows = [_GAP.split(one.strip()) if _GAP.search(one.strip()) else one.strip().split(": ", 1) for one in below]
        width = max(map(len, rows), default=0)
        rows = [row for row in rows if len(row) in (width, width - 1) and row[0] not in _HEADS]
        if line.endswith(":") and rows:
            tables.append(_table(begun, rows))
            started = False
        else:
            notes.append(begun)
            started = line.endswith((" about", " and", ";"))
    notes += [": ".join(_GAP.split(line, maxsplit=1)) for line in lines if _GAP.split(line)[0] in _HEADS]
    return notes, tables


def _table(heading: str, rows: list[list[str]]) -> Table:
    """Make a table of rows; the first is the header if it lacks the name that the others have."""
    width = max(map(len, rows))
    heads = [""] * (width - len(rows[0])) + rows.pop(0) if len(rows) > 1 and len(rows[0]) < width else [""] * width
    cells = tuple(tuple(row) for row in rows)
    return Table(tuple(heads), cells, frozenset({1}) if width == 2 else frozenset(), 0, heading.removesuffix(":"))


def sizes_shown(nobs: int | None) -> tuple[int, ...]:
    """Return the numbers of rows to show noise for: the public one, or several."""
    return (1_000, 10_000, 100_000) if nobs is None else (nobs,)


def first_error(priced: Measurement | PricedStage) -> float:
    """Return the noise standard deviation of the first released sum."""
    return float(np.sqrt(priced.law.variances[0])) * priced.steps[0]


@dataclass(frozen=True, eq=False)
class Procedure(ABC):
    """A question about columns, independent of data; its constructor takes every option.

    The fields that the user sets define the question; a release stores them as JSON. A subclass defines the stages of
    measurement (`slots`, `stage`) and the inference (`infer`). It never sees a row, a noise scale or a cost, which only
    the kernel handles. `docs/extending.md` builds an example.

    Attributes
    ----------
    source : Data, Release or None
        Data to measure, a release to infer from, or None if not bound.
    """

    procedures: ClassVar[tuple[str, ...]] = ()
    """Names under which releases know the class."""

    released_as: ClassVar[str] = ""
    """What is measured, where other procedures read it too; else it goes by the procedure's own name."""

    sources: ClassVar[tuple[type, ...]] = (Data, Release)
    """What it may be bound to."""

    source: Data | Release | None = unstored(None)

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class for releases."""
        super().__init_subclass__(**options)
        for name in cls.__dict__.get("procedures", ()):
            register(name, cls.infer_release)

    def __post_init__(self) -> None:
        """Refuse invalid options, and a source that is neither data nor a release."""
        check_values(self)
        self.check_options()
        right = "PrivateData, PublicData or a Release"
        of_type((NoneType, *self.sources), "data", self.source, right, hidden=True)
        if isinstance(self.source, Data):
            self.check(self.source.schema, self.source.neighbors)

    @classmethod
    def asking(cls, given: Mapping[str, Any], /, **read: Any) -> Self:
        """Return the question that a call of a public function describes.

        Parameters
        ----------
        given : mapping
            The arguments of the function, its ``locals()``; those that are fields are used unchanged.
        **read
            Further fields, as the function derived them from its arguments.
        """
        as_given = {one.name: given[one.name] for one in fields(cls) if one.name in given}
        return cls(**{"source": given["data"], **as_given, **read})

    # The question

    def check_options(self) -> None:  # noqa: B027  (a hook)
        """Refuse options that contradict each other.

        Raises
        ------
        DPInferError
        """

    @property
    def procedure(self) -> str:
        """The name of the class in a release of this question."""
        return self.procedures[0]

    @abstractmethod
    def text(self, schema: Schema) -> str:
        """Return the question in one line."""

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: B027  (a hook)
        """Refuse a question that the schema or neighbours do not allow, before privacy is chosen.

        Raises
        ------
        DPInferError
        """

    def resolve(self, context: Context) -> Self:  # noqa: ARG002
        """Return the same question with every "auto" that depends on the context replaced."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the stored fields as a JSON-ready mapping."""
        held = {one: getattr(self, one.name) for one in stored_fields(type(self))}
        return {one.name: encode(value) for one, value in held.items()
                if not one.metadata.get("later") or value != one.default}  # fmt: skip

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read the output of `to_dict`.

        Raises
        ------
        ReleaseFormatError
            If a field is missing or has the wrong type; the message names it.
        OptionError
            If a field has an invalid value.
        """
        expected = hints(cls)
        read = [one for one in stored_fields(cls) if one.name in stored or not one.metadata.get("later")]
        missing = [one.name for one in read if one.name not in stored]
        if missing:
            raise ReleaseFormatError(f"{', '.join(missing)} is missing")
        return cls(**{one.name: decode(one.name, stored[one.name], expected[one.name]) for one in read})

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores: fields, text, schema, and the columns read if others are stored."""
        read, stored = self.columns_read(context), self.columns_stored(context)
        kept = [name for name in context.schema if name in stored] or list(context.schema)[:1]
        return {
            "procedure": self.procedure,
            "text": self.text(context.schema),
            **self.to_dict(),
            **({} if set(stored) == set(read) else {"read": [name for name in context.schema if name in read]}),
            "schema": context.schema.select(kept).to_dict(),
        }

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Return the columns of the data that are read, by default those of the first stage or of the blocks."""
        blocks = self.units(context)
        return tuple(self.stage(0, context, ()).measure.rows.columns if blocks is None else blocks.columns)

    def columns_stored(self, context: Context) -> tuple[str, ...]:
        """Return the columns whose declarations a release holds, by default those that are read."""
        return self.columns_read(context)

    # What is measured

    @abstractmethod
    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Return what one stage measures.

        Parameters
        ----------
        place : int
            Index of the stage, from 0.
        context : Context
            The public facts of the run.
        released : tuple of StageRelease
            The releases of earlier stages if the slot is adaptive; else empty.
        """

    def slots(self, context: Context) -> tuple[Slot, ...]:  # noqa: ARG002
        """Return the share of the budget for each stage; by default one stage takes all of it."""
        return (Slot(),)

    def units(self, context: Context) -> Blocks | None:  # noqa: ARG002
        """Return the secret blocks of rows that are summed; by default none."""
        return None

    def blocks_dealt(self, context: Context, released: tuple[StageRelease, ...]) -> int:  # noqa: ARG002
        """Return the number of secret blocks if `units` lets it depend on earlier releases."""
        raise NotProvedError(f"{type(self).__name__} does not say how many blocks there are")

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return the kind of release, which other procedures may also read; by default `released_as`."""
        return self.released_as or self.procedure

    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Return the planned measurement with its bounds, noise and cost, all of it public.

        Parameters
        ----------
        privacy : PureDP, ZCDP, GDP or ApproxDP
        schema : Schema, optional
            Required if the procedure is not bound to data.
        neighbors : {"add_remove", "replace_one"}, optional
            Used if the procedure is not bound to data.

        Raises
        ------
        DPInferError
            If it cannot be measured with these privacy parameters.
        """
        context = self._context(privacy, schema, neighbors)
        return price_procedure(self.resolve(context), context)

    def explain(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Explanation:
        """Describe the measurement and its noise before any budget is spent; see `measurement`."""
        planned = self.measurement(privacy, schema=schema, neighbors=neighbors)
        return Explanation(self.describe(planned), planned)

    def describe(self, measured: Measurement) -> str:
        """Return the text of `explain` for a measurement: bound, noise, guarantee and expected precision."""
        return measured.describe()

    @property
    def unidentified(self) -> str:
        """The parts of the question that a release lacks, in words; empty if it holds all."""
        return ""

    def to_release(self, **measured: Any) -> Release:
        """Return the kernel's measurements, given by the field names of a release, as a release."""
        return Release(**measured)

    @suggests
    def measure(self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False) -> Release:
        """Measure the bound data and charge the ledger, or reuse a stored release at no privacy cost.

        Parameters
        ----------
        privacy : PureDP, ZCDP, GDP or ApproxDP
            The privacy parameters.
        save : path-like, optional
            A file for the release. If it exists and answers this question on these data with these privacy parameters,
            it is read and nothing is charged. Public rows are always measured anew, and nothing is written.
        reuse : bool
            True takes the last release of the same question, if there is one, from a ledger that stores releases
            (``Ledger(keep=True)``). By default a second call spends budget again, for new noise.

        Returns
        -------
        Release

        Raises
        ------
        BudgetExceededError
            If the remaining budget is too small; no noise is then drawn.
        OptionError
            If the procedure is not bound to data, ``save`` is not a writable file, ``reuse`` is invalid, or the ledger
            does not store releases.
        ReleaseMismatchError
            If the file answers another question; nothing is then charged. The same holds for:
        ReleaseFormatError, ReleaseVersionError
            If the file is not a release, or was written by a newer dpinfer.
        ReleaseLostError
            If an earlier run was charged and its release is lost.
        ReleaseNotSavedError
            If the release was drawn but cannot be stored; the error carries it.
        """
        return keep(self, self._data(), privacy, save=save, reuse=reuse)

    @suggests
    def fit(self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False) -> Any:
        """Measure and infer; parameters and errors are those of `measure`."""
        return self.infer(self.measure(privacy, save=save, reuse=reuse))

    def bind(self, source: Data | Release) -> Self:
        """Return the same question, bound to other data or another release."""
        return replace(self, source=source)

    # scikit-learn's protocol: what `sklearn.base.clone` and searches over parameters ask of an estimator

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the options of the question, by field name.

        Parameters
        ----------
        deep : bool
            Accepted for scikit-learn and ignored: no field is an estimator.

        Returns
        -------
        dict
            Options, and ``source``: the bound data or release itself, not a copy.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> dpi.binomtest("smokes", p=0.3).set_params(p=0.5).get_params()["p"]
        0.5
        """
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def set_params(self, **params: Any) -> Self:
        """Return a copy of the question with other options, which are validated; this one is unchanged.

        The question is frozen, unlike scikit-learn's estimators.

        Parameters
        ----------
        **params
            Fields, as `get_params` names them.

        Returns
        -------
        Procedure
            A new question.

        Raises
        ------
        OptionError
            If there is no such option, or its value is invalid.
        """
        for name, given in params.items():
            known = list(self.get_params())
            require(name in known, name, given, f"an option of {type(self).__name__}: {', '.join(known)}")
        return replace(self, **params)

    def __sklearn_clone__(self) -> Self:
        """Return an equal question about the same data; rows and ledgers are never copied."""
        return self.set_params()

    # What is inferred

    def infer(self, release: Release | None = None) -> Any:
        """Infer from a release, by default the bound one, at no privacy cost and without reading a row.

        A procedure that defines only `estimate` returns its estimates.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        context = context_of(found)
        released = Released.of_release(found, context, theirs.stage(0, context, ()).measure.rows)
        return Estimates(lambda alpha: self.estimate(released, alpha=alpha), found)

    @property
    def about(self) -> object:
        """Return the measured fields by default, in a form to compare with other questions."""
        measured = [one.name for one in stored_fields(type(self)) if one.metadata.get("role") != "inferred"]
        return type(self), encode([getattr(self, name) for name in measured])

    def reads(self, other: Procedure) -> bool:
        """Return whether a release of another question serves this one, by default if `about` agrees."""
        return bool(self.about == other.about)

    def summed(self) -> Any:
        """Return the `SumPlan` of its release; None without a release, or if it holds other sums."""
        return None

    def counted(self) -> Any:
        """Return the `MeasuredCounts` of its release; None if it holds no counts."""
        return None

    def marginal_tables(self) -> Any:
        """Return the marginals of its release; None if it holds none."""
        return None

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:  # noqa: ARG002
        """Infer from many releases at once, with the results of `infer` for each.

        Parameters
        ----------
        released : Released
            R releases of this question.
        alpha : float
            Intervals have level ``1 - alpha``.
        contrasts : mapping of name to weights by coefficient, optional
            Further quantities to infer, after the coefficients.

        Raises
        ------
        NotProvedError
            If the requested inference cannot handle many releases at once.
        """
        raise NotProvedError(f"{type(self).__name__} has no form for many releases at once; use .infer one by one")

    @property
    def estimates_many(self) -> bool:
        """Whether `estimate` is available for this question."""
        simulated = getattr(self, "inference", "") == "simulated"
        return type(self).estimate is not Procedure.estimate and not simulated

    @classmethod
    def from_release(cls, release: Release) -> Self:
        """Return the question that a release was made for, bound to it.

        Raises
        ------
        ReleaseFormatError
            If the question is damaged, or does not match the sums in the release.
        """
        try:
            known = {"procedure", "text", "schema", "read"} | {one.name for one in stored_fields(cls)}
            unknown = [name for name in release.question if name not in known]
            if unknown:
                raise ReleaseFormatError(f"{names_of(unknown)}: unknown to {cls.__name__}")
            asked = cls.from_dict(release.question)
            asked.check_release(release)
        except (DPInferError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        return replace(asked, source=release)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose sums do not match the question.

        Raises
        ------
        ReleaseFormatError
        """
        context = context_of(release)
        if release.kind != self.release_kind(context):
            raise ReleaseFormatError("kind: not that of what the question asks for")
        slots = self.slots(context)
        if len(slots) != len(release.stages):
            raise ReleaseFormatError("stages: not as many as the question asks for")
        for place, (slot, stage) in enumerate(zip(slots, release.stages, strict=True)):
            if not slot.adaptive and self.stage(place, context, ()).measure.names != stage.names:
                raise ReleaseFormatError("the sums of the release are not those that its question asks for")

    @classmethod
    def infer_release(cls, release: Release, **options: Any) -> Any:
        """Infer from a release for its own question, with other inference options.

        Raises
        ------
        OptionError
            If the procedure has no such inference option.
        """
        return cls.from_release(release).with_options(options).infer(release)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other inference options; None keeps one; errors as `infer_release`."""
        known = [one.name for one in stored_fields(type(self)) if one.metadata.get("role") == "inferred"]
        for name, given in options.items():
            require(name in known, name, given, f"an option of the inference: {', '.join(known) or 'it has none'}")
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def _asked_of(self, release: Release | None) -> tuple[Release, Procedure]:
        """Return the release to infer from and its own question; refuse one unsuitable for this question."""
        chosen = self._release(release)
        theirs = read_question(chosen)
        if not self.reads(theirs):
            raise InferenceError(
                f"the release was made for another question ({chosen.question['text']}); "
                "its own is answered by release.infer()"
            )
        return chosen, theirs

    def _data(self) -> Data:
        if isinstance(self.source, Data):
            return self.source
        if isinstance(self.source, Release):
            raise OptionError(
                "data", "a release", "PrivateData or PublicData to measure; a release only infers: .infer()"
            )
        raise OptionError("data", None, "PrivateData or PublicData: pass it to the procedure, or use .bind(data)")

    def _release(self, release: Release | None) -> Release:
        chosen, right = (
            self.source if release is None else release,
            "a Release, from .measure(privacy) or read_release(path)",
        )
        return of_type(Release, "release", chosen, right, hidden=True)

    def _context(self, privacy: Privacy, schema: Schema | None = None, neighbors: Neighbors | None = None) -> Context:
        """Return the public facts of a run, from the bound data or as given."""
        if not isinstance(self.source, Data):
            unchecked: Any = schema  # which the context refuses where there is none
            return Context(unchecked, neighbors or "add_remove", privacy)
        bound, asked = self.source, neighbors or self.source.neighbors
        nobs = bound.nobs if asked == bound.neighbors else None  # public in the relation of the data, not in the other
        return Context(bound.schema if schema is None else schema, asked, privacy, nobs, bound.public)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimated(Procedure):
    """A question answered by estimates, with several methods for intervals and tests."""

    target: str = inferred("population", TARGET)
    inference: str = inferred("auto", one_of(METHODS))
    replicates: int = inferred(999, REPLICATES)
    seed: int = inferred(0, SEED)

    @property
    def _inference_options(self) -> dict[str, Any]:
        """The inference options."""
        return {name: getattr(self, name) for name in ("target", "inference", "replicates", "seed")}
