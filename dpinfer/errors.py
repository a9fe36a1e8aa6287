"""Every error that dpinfer raises, under one root.

No message ever names a value that was read from a confidential row: errors come from what is public
(the schema, the formula, the price, the ledger, a release), never from what the rows hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    "ReleaseVersionError",
    "SchemaError",
    "UnknownColumnError",
]


class DPInferError(Exception):
    """Root of all errors of dpinfer."""


class OptionError(DPInferError, ValueError):
    """An option has a value that it does not take.

    Parameters
    ----------
    option : str
        Name of the argument.
    given : object
        What was given.
    expected : str or iterable of str
        What would be right: a sentence, or the good values.
    """

    def __init__(self, option: str, given: object, expected: str | Iterable[str]) -> None:
        self.option, self.given = option, given
        self.expected = expected if isinstance(expected, str) else "one of " + ", ".join(map(repr, expected))
        super().__init__(f"{option}={given!r} is not valid: expected {self.expected}")


class SchemaError(DPInferError, ValueError):
    """A schema or one of its columns is declared wrongly."""


class UnknownColumnError(SchemaError):
    """A name is not among the declared columns.

    Parameters
    ----------
    name : str
        The name that was looked up.
    known : iterable of str
        The names that exist.
    where : str
        Where they were looked for, for the message.
    """

    def __init__(self, name: str, known: Iterable[str], where: str = "the schema") -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"{name!r} is not in {where}; it has: {', '.join(map(str, self.known)) or 'no columns'}")


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
        self.term, self.reason, self.instead = term, reason, instead
        super().__init__(f"{term}: {reason}" + (f"; {instead}" if instead else ""))


class CollinearDesignError(FormulaError):
    """The columns of a design are linearly dependent whatever the rows are."""


class PrivacyUnitError(DPInferError, ValueError):
    """A privacy parameter is invalid, or a conversion between units has no proof."""


class NotProvedError(DPInferError, ValueError):
    """A combination of options has no privacy or inference proof, and is therefore refused."""


class LedgerError(DPInferError, ValueError):
    """A ledger cannot be opened, read or used."""


class LedgerMismatchError(LedgerError):
    """A ledger file belongs to another study than the one described."""


class BudgetExceededError(DPInferError):
    """A charge does not fit in what is left of the budget; nothing was drawn.

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
            f"the budget does not allow this: requested {requested}, remaining {remaining}"
            + (f" ({detail})" if detail else "")
        )


class DataError(DPInferError, TypeError):
    """A source of rows has a type or a column set that cannot be used."""


class MeasurementFailedError(DPInferError, RuntimeError):
    """Something failed after the charge, which stands; what went wrong is not said, as it may depend on a row.

    Parameters
    ----------
    partial : Release
        What had been released before: it is paid for and may be used.
    """

    def __init__(self, partial: object) -> None:
        self.partial = partial
        super().__init__(
            "the measurement failed after it was charged; nothing is said of why, as that may depend on a row. "
            "What was released before is the attribute .partial"
        )


class ReleaseError(DPInferError, ValueError):
    """A release cannot be used as asked."""


class ReleaseFormatError(ReleaseError):
    """A file is not a release, or is damaged."""


class ReleaseVersionError(ReleaseError):
    """A release was written by a newer version of dpinfer."""


class MissingFromReleaseError(ReleaseError):
    """A release does not hold what a question needs."""


class InferenceError(DPInferError, ValueError):
    """An inference cannot be made from a release."""
