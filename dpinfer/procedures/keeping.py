"""Measuring once: a release that was kept answers the same question again, free; else it is paid for and kept.

What is compared is public: the question, the schema of the columns read, the price, the data set's name and declared
version, the neighbour relation and the unit of protection. Rows are not: a hash of them, or their number, would be a
release that nobody paid for. The kernel charges; all that is said to it is which id the charge will have.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dpinfer.checks import TRUTH, require
from dpinfer.errors import LedgerError, OptionError, ReleaseLostError, ReleaseMismatchError, ReleaseNotSavedError
from dpinfer.privacy.store import LedgerMovedError
from dpinfer.release.release import Release
from dpinfer.release.request import Request
from dpinfer.release.saving import Reservation, SavedRelease

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.privacy.units import Privacy


_NOTHING = object()
_READING = {"inference", "replicates", "seed", "draws", "alternative", "conservative", "margin", "false_alarm"}
"""Options that decide how a release is read, and nothing of what is measured. Others do for some question: a target,
the statistic of a bootstrap, the probabilities of a quantile."""


def keep(procedure: Any, data: Data, privacy: Privacy, *, save: object, reuse: bool) -> Release:
    """Return the kept release of a question, or measure and keep it; see `Procedure.measure`."""
    TRUTH.check("reuse", reuse)
    if save is None and not reuse:
        return data.run(procedure, privacy)
    file = None if save is None else SavedRelease(save)
    ledger = data.ledger
    if ledger is None:  # public rows: nothing is paid, so nothing is kept
        return data.run(procedure, privacy)
    keeps = ledger.keeps or not reuse
    require(keeps, "reuse", reuse, "False, or a ledger that keeps releases: dpi.Ledger(..., keep=True)")
    right = (
        f"a question that a release identifies: it stores only the name of {procedure.unidentified}. Omit save= and "
        "reuse=, and store results.release yourself"
    )
    require(not procedure.unidentified, "reuse" if reuse else "save", reuse or str(save), right)
    asking = _Asking(procedure, data, ledger, privacy, reuse=reuse)
    release = asking.measured(uuid.uuid4().hex) if file is None else asking.saved(file)
    if release.kind == "quality":  # read back, it is cited by later fits as when it was made
        with suppress(OptionError):  # of a procedure of a user's own, which advises nothing
            data.cite(release)
    return release


class _Asking:
    """A question of confidential rows at a price, with what identifies it."""

    def __init__(self, procedure: Any, data: Data, ledger: Ledger, privacy: Privacy, *, reuse: bool) -> None:
        context = data.context(privacy)
        self.procedure, self.data, self.ledger, self.privacy, self.reuse = procedure, data, ledger, privacy, reuse
        resolved = procedure.resolve(context)
        asked = Request(resolved.question(context), context.privacy, context.neighbors, ledger.dataset, data.version)
        self.asked = Request.from_json(asked.to_json())  # what cannot be stored is refused now
        self._columns = bool(resolved.columns_read(context))

    def saved(self, file: SavedRelease) -> Release:
        """Return what a file holds; without a file measure, under the lock of its reservation."""
        found = file.read()
        if found is not None:
            self._check(found, str(file))
            file.tidy()
            return found
        with file.reserved() as reservation:
            found = file.read()  # which another process wrote while this one waited
            if found is not None:
                reservation.remove()
                self._check(found, str(file))
                return found
            left = reservation.read()
            found = None if left is None else self._settled(left, file)
            if found is not None:
                file.write(found)
                reservation.remove()
                return found
            charge_id = uuid.uuid4().hex
            try:
                reservation.write(Reservation(self.ledger.identifier, charge_id, self.asked))
            except OSError as error:
                reservation.remove()
                raise OptionError("save", str(file.path), f"a file that can be written ({error.strerror})") from None
            try:
                release = self.measured(charge_id)
            except ReleaseNotSavedError as error:  # in the ledger: it goes to the file
                file.write(error.release)  # type: ignore[arg-type]
                reservation.remove()
                raise
            except BaseException:
                if self._charged(charge_id) is False:
                    reservation.remove()
                raise
            file.write(release)
            reservation.remove()
            return release

    def measured(self, charge_id: str) -> Release:
        """Measure; with ``reuse`` return the last release of the question that the ledger keeps, if there is one.

        The charge is refused where the ledger's releases are no more those that were looked through. So of two
        processes that ask at once one pays, and the other finds that.
        """
        while self.reuse:
            kept = self.ledger.kept()
            same = [one for one in kept if not self._differing(Request.from_json(one.request))]
            stored = [one.release for one in same if one.release is not None]
            if stored:
                return Release.from_json(stored[-1])
            if same:
                raise ReleaseLostError(
                    f"the ledger was charged for this question, under the id {same[-1].charge}, but has no release of "
                    "it: another process is measuring, or a crash lost it. No budget was spent now; without reuse=True "
                    "it is measured and charged again",
                    same[-1].charge,
                )
            try:
                return self.data.run(self.procedure, self.privacy, charge_id=charge_id, seen=len(kept))
            except LedgerMovedError:
                continue
        return self.data.run(self.procedure, self.privacy, charge_id=charge_id)

    def _differing(self, stored: Request) -> list[tuple[str, str, str]]:
        return differences(self.procedure, stored, self.asked, columns=self._columns)

    def _check(self, found: Release, where: str) -> None:
        """Refuse a release that was made for something else, or whose question is damaged."""
        differing = self._differing(Request.of_release(found))
        if differing:
            raise ReleaseMismatchError(where, differing)
        type(self.procedure).from_release(found)

    def _settled(self, left: Reservation, file: SavedRelease) -> Release | None:
        """Return the release of a run that ended before it wrote it, if the ledger kept it; None if nothing was paid.

        Raises
        ------
        ReleaseLostError
            If the price was paid, or may have been.
        """
        asked = f"{left.request.question['text']} at {left.request.privacy}"
        go_on = f"Delete {str(file.sidecar)!r} to measure and spend again"
        if left.ledger != self.ledger.identifier:
            raise ReleaseLostError(
                f"an earlier run reserved {file} for {asked}, with another ledger than this one (for data set "
                f"{left.request.dataset!r}), and wrote no release. If that ledger lists charge {left.charge_id}, the "
                f"budget was spent and the release is lost. No budget was spent now. {go_on}",
                left.charge_id,
            )
        if not self.ledger.charged(left.charge_id):
            return None
        kept = next((one.release for one in self.ledger.kept() if one.charge == left.charge_id), None)
        found = None if kept is None else Release.from_json(kept)
        if found is not None and not self._differing(Request.of_release(found)):
            return found
        held = f"; ledger.release({left.charge_id!r}) returns it" if found is not None else ", and the release is lost"
        raise ReleaseLostError(
            f"an earlier run was charged for {asked}, charge {left.charge_id}, and ended before it wrote {file}: the "
            f"charge stands{held}. No budget was spent now. {go_on}",
            left.charge_id,
        )

    def _charged(self, charge_id: str) -> bool | None:
        """Whether the price was paid; None where the ledger cannot be read now."""
        try:
            return self.ledger.charged(charge_id)
        except LedgerError:
            return None


def differences(procedure: Any, stored: Request, asked: Request, *, columns: bool = True) -> list[tuple[str, str, str]]:
    """Say in what a stored question differs from the one asked, as far as it changes what is measured.

    Without ``columns`` none is read: the schema of a release then holds one for form's sake, which is not compared.

    Returns
    -------
    list of (str, str, str)
        What differs, what is stored, what is asked. Options of the inference, labels and units do not count.
    """
    sides = [(what, told, asked.conditions[what]) for what, told in stored.conditions.items()]
    asked_else = _of_question(procedure, stored.question, asked.question)
    schemas = _of_columns(stored, asked, both=bool(asked_else)) if columns else []
    return [*(one for one in sides if one[1] != one[2]), *asked_else, *schemas]


def _of_question(procedure: Any, stored: Any, asked: Any) -> list[tuple[str, str, str]]:
    if stored.get("procedure") != asked.get("procedure"):
        return [("question", str(stored.get("text")), str(asked.get("text")))]
    names = [
        one.name
        for one in fields(procedure)
        if (role := one.metadata.get("role")) != "unstored" and (role != "inferred" or one.name not in _READING)
    ]
    return [
        (f"question, {name}", _written(stored.get(name, _NOTHING)), _written(asked.get(name, _NOTHING)))
        for name in names
        if stored.get(name, _NOTHING) != asked.get(name, _NOTHING)
    ]


def _of_columns(stored: Request, asked: Request, *, both: bool) -> list[tuple[str, str, str]]:
    """Compare how columns are declared; where the questions differ, of ``both`` alone."""
    ours, theirs = asked.columns, stored.columns
    found = []
    for name in sorted({*ours, *theirs}):
        if name in ours and name in theirs:
            new, old = ours[name], theirs[name]
            keys = ["kind"] if new["kind"] != old["kind"] else list(dict.fromkeys((*old, *new)))
            told = [(f"schema, {name}, {key}", old.get(key, "none"), new.get(key, "none")) for key in keys]
            found += [one for one in told if one[1] != one[2]]
        elif not both:
            there, here = ("read" if name in side else "not read" for side in (theirs, ours))
            found.append((f"schema, {name}", there, here))
    return found


def _written(value: object) -> str:
    return "nothing" if value is _NOTHING else json.dumps(value)
