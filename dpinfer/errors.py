"""All errors that dpinfer raises, with one base class.

No message contains a value from a confidential row: errors depend only on public facts (the schema, the formula, the
privacy parameters, the ledger, a release), never on the content of the rows. An argument may hold rows by mistake, as
in ``mean(frame["income"], data)``. So `shown` formats every argument in a message, and an error stores only scalar and
text arguments.

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
    """Format an argument for a message: a scalar or a text unchanged, anything else by type and shape."""
    if isinstance(given, _SCALARS):
        with suppress(ValueError):  # a whole number of thousands of digits has no text
            return cut(repr(given))
    return kind_of(given)


def kind_of(given: object) -> str:
    """Format an argument, such as a list element that may be a cell, by its type and shape."""
    if isinstance(given, type):
        return f"<class {given.__name__}>"
    kind = type(given).__name__
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple) and shape and all(isinstance(size, int) for size in shape):
        return f"<{kind} of shape {shape}>"
    return f"<{kind} of length {len(given)}>" if isinstance(given, _SIZED) else f"<{kind}>"


class _Unquoted(str):
    """A text that a message shows without quotes, so that it is not mistaken for an argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def type_of(given: object) -> str:
    """Format an argument by its type alone, for the ``given`` of an `OptionError`.

    Examples
    --------
    >>> print(OptionError("data", type_of({"income": [51_234]}), "PrivateData"))
    data=<dict> is not valid: expected PrivateData
    """
    return _Unquoted(f"<{type(given).__name__}>")


def worded(words: str) -> str:
    """Describe an argument in words without quotes, for the ``given`` of an `OptionError`."""
    return _Unquoted(words)


def names_of(given: Iterable[object]) -> str:
    """Format arguments that should be names: texts unchanged, anything else by type."""
    return cut(", ".join(map(name_or_kind, given)))


def name_or_kind(given: object) -> str:
    """Return a text unchanged; format anything else by type."""
    return given if isinstance(given, str) else kind_of(given)


def named(given: object) -> str:
    """Format an argument that should be a name: a text unchanged, anything else, which may be a cell, by type."""
    return shown(given) if isinstance(given, str) else kind_of(given)


def cut(text: str) -> str:
    """Truncate a text that is too long for a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _restored(kind: type[DPInferError], arguments: tuple[object, ...], fields: dict[str, object]) -> DPInferError:
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(fields)
    return error


class DPInferError(Exception):
    """Base class of all errors of dpinfer."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, vars(self))  # else unpickling would call it with its message


class OptionError(DPInferError, ValueError):
    """An argument has an invalid value.

    Parameters
    ----------
    option : str
        Name of the argument.
    given : object
        The argument given. The attribute stores a scalar or a text, and anything else as `shown` formats it.
    expected : str or iterable of str
        Description of a valid argument, or the valid values.
    """

    def __init__(self, option: str, given: object, expected: str | Iterable[str]) -> None:
        self.option, self.given = option, given if isinstance(given, _SCALARS) else shown(given)
        self.expected = expected if isinstance(expected, str) else "one of " + ", ".join(map(repr, expected))
        super().__init__(f"{option}={shown(given)} is not valid: expected {self.expected}")


class SchemaError(DPInferError, ValueError):
    """A schema or one of its columns has an invalid declaration."""


class UnknownColumnError(SchemaError):
    """A name is not among the declared columns.

    Parameters
    ----------
    name : str
        The name that was looked up. Anything but a text, which may be a cell, is stored and shown as its type.
    known : iterable of str
        The declared names.
    where : str
        Where the name was looked up, for the message.
    """

    def __init__(self, name: str, known: Iterable[str], where: str = "the schema") -> None:
        self.name, self.known = name_or_kind(name), tuple(map(name_or_kind, known))
        super().__init__(f"{named(name)} is not in {where}; it has: {', '.join(self.known) or 'no columns'}")


class FormulaError(DPInferError, ValueError):
    """A formula cannot be compiled from public metadata.

    Parameters
    ----------
    term : str
        The invalid term or expression.
    reason : str
        Why it is invalid.
    instead : str, optional
        A valid alternative.
    """

    def __init__(self, term: str, reason: str, instead: str = "") -> None:
        self.term, self.reason, self.instead = cut(term), reason, instead
        super().__init__(f"{self.term}: {reason}" + (f"; {instead}" if instead else ""))


class CollinearDesignError(FormulaError):
    """The columns of a design are linearly dependent for all possible rows."""


class PrivacyUnitError(DPInferError, ValueError):
    """A privacy parameter is invalid, or a conversion between units has no proof."""


class NotProvedError(DPInferError, ValueError):
    """A combination of options has no proof of privacy or of valid inference, and is therefore refused."""


class LedgerError(DPInferError, ValueError):
    """A ledger cannot be opened, read or used."""


class LedgerMismatchError(LedgerError):
    """A ledger file has properties other than the ones requested."""


class BudgetExceededError(DPInferError):
    """A charge exceeds the remaining budget; nothing was charged or drawn.

    Parameters
    ----------
    requested, remaining : object
        Privacy amounts: the one requested and the one left.
    detail : str, optional
        Further details, such as the currency of the ledger.
    """

    def __init__(self, requested: object, remaining: object, detail: str = "") -> None:
        self.requested, self.remaining = requested, remaining
        super().__init__(
            f"the privacy budget is too small: requested {requested}, remaining {remaining}"
            + (f" ({detail})" if detail else "")
        )


class DataError(DPInferError, TypeError):
    """A source of rows has an unusable type or unusable columns."""


class SourceFailedError(DPInferError, RuntimeError):
    """A source of rows could not be read completely.

    Parameters
    ----------
    reason : str
        A fixed text that reveals nothing about a row.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MeasurementFailedError(DPInferError, RuntimeError):
    """A measurement failed after its charge, which stands; details that may depend on rows are withheld.

    Parameters
    ----------
    partial : Release
        The release up to the failure, which has been charged and may be used.
    reason : str, optional
        The report of the source of the rows, in a fixed text.
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
    """Show two long texts from just before their first difference."""
    apart = (place for place, (one, other) in enumerate(zip(stored, asked, strict=False)) if one != other)
    same = next(apart, min(len(stored), len(asked)))
    if same > _LONGEST // 4:
        stored, asked = (f"...{one[same - 20 :]}" for one in (stored, asked))
    return f"stored {cut(stored)}, asked {cut(asked)}"


class ReleaseMismatchError(ReleaseError):
    """A stored release does not answer the question asked; no budget was spent.

    Parameters
    ----------
    where : str
        Where it is stored.
    differences : sequence of (str, str, str)
        Name, stored value and requested value of each difference, all of it public.
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
    """A release was charged to the ledger but is missing from storage; no further budget was spent.

    Parameters
    ----------
    message : str
        What is known about the charge, and how to proceed.
    charge_id : str
        The id of the charge that the ledger holds, or would hold.
    """

    def __init__(self, message: str, charge_id: str) -> None:
        self.charge_id = charge_id
        super().__init__(message)


class ReleaseNotSavedError(DPInferError, OSError):
    """A release was charged and drawn but could not be stored; the attribute ``release`` holds it.

    Parameters
    ----------
    where : str
        Where it was to be stored.
    reason : str
        The message of the system.
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
