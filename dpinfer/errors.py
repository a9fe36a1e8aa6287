"""Every error that dpinfer raises, under one root.

No message ever names a value that was read from a confidential row: errors come from what is public
(the schema, the formula, the price, the ledger, a release), never from what the rows hold. An argument may hold
rows by mistake, as in ``mean(frame["income"], data)``. So `shown` writes every argument that a message names, and
an error keeps no argument but a scalar or a text.

>>> import pandas as pd
>>> import dpinfer as dpi
>>> schema = dpi.Schema(age=dpi.Real(0, 100))
>>> ledger = dpi.Ledger.in_memory(dpi.ZCDP(0.1), dataset="survey")
>>> data = dpi.PrivateData(pd.DataFrame({"age": [30.0]}), schema, ledger)
>>> try:
...     dpi.mean("age", data).fit(dpi.ZCDP(0.2))
... except dpi.errors.BudgetExceededError as error:
...     print(error.remaining)
ZCDP(rho=0.1)
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "BudgetExceededError",
    "CollinearDesignError",
    "DPInferError",
    "DataError",
    "FormulaError",
    "InferenceError",
    "LedgerError",
    "LedgerMismatchError",
    "MeasurementFailedError",
    "MissingFromReleaseError",
    "NotProvedError",
    "OptionError",
    "PrivacyUnitError",
    "ReleaseError",
    "ReleaseFormatError",
    "ReleaseLostError",
    "ReleaseMismatchError",
    "ReleaseNotSavedError",
    "ReleaseVersionError",
    "SchemaError",
    "UnknownColumnError",
    "cut",
    "kind_of",
    "named",
    "names_of",
    "shown",
    "type_of",
    "worded",
]

_SCALARS = (type(None), str, bytes, Number, np.generic, date, timedelta)
_SIZED = (list, tuple, dict, set, frozenset)
_LONGEST = 200


def shown(given: object) -> str:
    """Write an argument for a message: a scalar or a text as it is, of anything else its type and shape."""
    if isinstance(given, _SCALARS):
        with suppress(ValueError):  # a whole number of thousands of digits has no text
            return cut(repr(given))
    return kind_of(given)


def kind_of(given: object) -> str:
    """Write the type and shape of an argument, such as an element of a list, which may be a cell of a column."""
    if isinstance(given, type):
        return f"<class {given.__name__}>"
    kind = type(given).__name__
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple) and shape and all(isinstance(size, int) for size in shape):
        return f"<{kind} of shape {shape}>"
    return f"<{kind} of length {len(given)}>" if isinstance(given, _SIZED) else f"<{kind}>"


class _Unquoted(str):
    """A text that a message shows without quotes, so that nobody takes it for what was given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def type_of(given: object) -> str:
    """Write the type of an argument and nothing else, for the ``given`` of an `OptionError`.

    Examples
    --------
    >>> print(OptionError("data", type_of({"income": [51_234]}), "PrivateData"))
    data=<dict> is not valid: expected PrivateData
    """
    return _Unquoted(f"<{type(given).__name__}>")


def worded(words: str) -> str:
    """Write what was given in words that a message shows without quotes, for the ``given`` of an `OptionError`."""
    return _Unquoted(words)


def names_of(given: Iterable[object]) -> str:
    """Write what stands where names are expected: texts as they are, of anything else the type."""
    return cut(", ".join(map(name_or_kind, given)))


def name_or_kind(given: object) -> str:
    """Return a text as it is; of anything else write the type."""
    return given if isinstance(given, str) else kind_of(given)


def named(given: object) -> str:
    """Write what stands where a name is expected: a text as it is, of anything else the type, for it may be a cell."""
    return shown(given) if isinstance(given, str) else kind_of(given)


def cut(text: str) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _restored(kind: type[DPInferError], arguments: tuple[object, ...], fields: dict[str, object]) -> DPInferError:
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(fields)
    return error


class DPInferError(Exception):
    """Root of all errors of dpinfer."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, vars(self))  # else unpickling would call it with its message


class OptionError(DPInferError, ValueError):
    """An argument has an invalid value.

    Parameters
    ----------
    option : str
        Name of the argument.
    given : object
        What was given. The attribute keeps a scalar or a text, and of anything else what `shown` writes.
    expected : str or iterable of str
        What would be valid: a phrase, or the valid values.
    """

    def __init__(self, option: str, given: object, expected: str | Iterable[str]) -> None:
        self.option, self.given = option, given if isinstance(given, _SCALARS) else shown(given)
        self.expected = expected if isinstance(expected, str) else "one of " + ", ".join(map(repr, expected))
        super().__init__(f"{option}={shown(given)} is not valid: expected {self.expected}")


class SchemaError(DPInferError, ValueError):
    """A schema or one of its columns is declared wrongly."""


class UnknownColumnError(SchemaError):
    """A name is not among the declared columns.

    Parameters
    ----------
    name : str
        The name that was looked up. Anything else is kept and shown as its type: it may be a cell.
    known : iterable of str
        The names that exist.
    where : str
        Where they were looked for, for the message.
    """

    def __init__(self, name: str, known: Iterable[str], where: str = "the schema") -> None:
        self.name, self.known = name_or_kind(name), tuple(map(name_or_kind, known))
        super().__init__(f"{named(name)} is not in {where}; it has: {', '.join(self.known) or 'no columns'}")


class FormulaError(DPInferError, ValueError):
    """A formula cannot be compiled from public metadata.

    Parameters
    ----------
    term : str
        The term or expression at fault.
    reason : str
        Why it is refused.
    instead : str, optional
        What would work.
    """

    def __init__(self, term: str, reason: str, instead: str = "") -> None:
        self.term, self.reason, self.instead = cut(term), reason, instead
        super().__init__(f"{self.term}: {reason}" + (f"; {instead}" if instead else ""))


class CollinearDesignError(FormulaError):
    """The columns of a design are linearly dependent whatever the rows are."""


class PrivacyUnitError(DPInferError, ValueError):
    """A privacy parameter is invalid, or a conversion between units has no proof."""


class NotProvedError(DPInferError, ValueError):
    """A combination of options has no proof of privacy or of valid inference, and is therefore refused."""


class LedgerError(DPInferError, ValueError):
    """A ledger cannot be opened, read or used."""


class LedgerMismatchError(LedgerError):
    """A ledger file belongs to another study than the one described."""


class BudgetExceededError(DPInferError):
    """A charge exceeds the remaining budget; nothing was charged or drawn.

    Parameters
    ----------
    requested, remaining : object
        Privacy units: what was asked for and what is left.
    detail : str, optional
        More, such as the currency of the ledger.
    """

    def __init__(self, requested: object, remaining: object, detail: str = "") -> None:
        self.requested, self.remaining = requested, remaining
        super().__init__(
            f"the privacy budget is too small: requested {requested}, remaining {remaining}"
            + (f" ({detail})" if detail else "")
        )


class DataError(DPInferError, TypeError):
    """A source of rows has a type or a column set that cannot be used."""


class SourceFailedError(DPInferError, RuntimeError):
    """A source of rows could not be read to its end.

    Parameters
    ----------
    reason : str
        Fixed words, which tell of no row.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MeasurementFailedError(DPInferError, RuntimeError):
    """Something failed after the charge, which stands; details that may depend on a row are withheld.

    Parameters
    ----------
    partial : Release
        What had been released before the failure: it has been charged and may be used.
    reason : str, optional
        What the source of the rows reports, in fixed words.
    """

    def __init__(self, partial: object, reason: str | None = None) -> None:
        self.partial, self.reason = partial, reason
        why = f"{reason}; further details are" if reason else "the cause is"
        super().__init__(
            f"the measurement failed after it was charged; {why} withheld, because it may depend on a row. "
            "What was released before the failure is the attribute .partial"
        )


class ReleaseError(DPInferError, ValueError):
    """A release cannot be used as asked."""


class ReleaseFormatError(ReleaseError):
    """A file is not a release, or is damaged."""


class ReleaseVersionError(ReleaseError):
    """A release was written by a newer version of dpinfer."""


_TOLD = 6


def _side_by_side(stored: str, asked: str) -> str:
    """Write two long texts from shortly before where they differ."""
    apart = (place for place, (one, other) in enumerate(zip(stored, asked, strict=False)) if one != other)
    same = next(apart, min(len(stored), len(asked)))
    if same > _LONGEST // 4:
        stored, asked = (f"...{one[same - 20 :]}" for one in (stored, asked))
    return f"stored {cut(stored)}, asked {cut(asked)}"


class ReleaseMismatchError(ReleaseError):
    """A stored release answers another question than the one asked; no budget was spent.

    Parameters
    ----------
    where : str
        Where it is stored.
    differences : sequence of (str, str, str)
        What differs, what is stored, and what was asked, all of it public.
    """

    def __init__(self, where: str, differences: Sequence[tuple[str, str, str]]) -> None:
        self.where, self.differences = where, tuple(differences)
        told = "; ".join(f"{name}: {_side_by_side(stored, asked)}" for name, stored, asked in differences[:_TOLD])
        more = f"; and {len(differences) - _TOLD} more in .differences" if len(differences) > _TOLD else ""
        super().__init__(
            f"{where} holds the answer to another question; no budget was spent. {told}{more}. Save the new release "
            "under another name, or move the file away to measure again"
        )


class ReleaseLostError(ReleaseError):
    """A release was charged to the ledger but is not where it should be stored; no further budget was spent.

    Parameters
    ----------
    message : str
        What is known of the charge, and how to proceed.
    charge_id : str
        The id of the charge that the ledger holds, or would hold.
    """

    def __init__(self, message: str, charge_id: str) -> None:
        self.charge_id = charge_id
        super().__init__(message)


class ReleaseNotSavedError(DPInferError, OSError):
    """A release was charged and drawn, but could not be stored. It is not lost: it is the attribute ``release``.

    Parameters
    ----------
    where : str
        Where it was to be kept.
    reason : str
        What the system said.
    release : Release
        Save it elsewhere: ``error.release.save(path)``.
    """

    def __init__(self, where: str, reason: str, release: object) -> None:
        self.where, self.reason, self.release = where, reason, release
        super().__init__(
            f"the release was charged to the ledger but could not be stored in {where}: {reason}. It is the attribute "
            ".release of this error: save it with error.release.save(path); measuring again would spend budget again"
        )


class MissingFromReleaseError(ReleaseError):
    """A release does not hold what a question needs."""


class InferenceError(DPInferError, ValueError):
    """An inference cannot be made from a release."""
