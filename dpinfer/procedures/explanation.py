"""What `explain` returns: a text that shows as tables in a notebook, with what it tells as frames."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Table
from dpinfer.kernel.measurement import measured_in_words, noise_in_words
from dpinfer.release.laws import CHOICES

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.units import Neighbors, Privacy

__all__ = ["Explanation", "first_error", "sizes_shown"]

_GAP = re.compile(r" {2,}")
_HEADS = ("test", "replicates", "balance", "instead", "ranks", "error", "region", "native", "row_norm")
"""Names of facts that procedures tell besides those of the measurement."""


class Explanation(str):
    """A measurement in words, before anything is spent; equal to its text, and a text in every way.

    A notebook shows it as tables. Nothing of it comes from a row.

    Parameters
    ----------
    text : str
        What is printed.
    measurement : Measurement
        What it tells of.

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
        """Everything that would be done to the rows, in the kernel's own terms."""
        return self._measurement

    @property
    def question(self) -> str:
        """The question in one line."""
        return self._measurement.text

    @property
    def privacy(self) -> Privacy:
        """The price that was asked about."""
        return self._measurement.context.privacy

    @property
    def neighbors(self) -> Neighbors:
        """The relation that is protected."""
        return self._measurement.neighbors

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self._measurement.columns

    @property
    def stages(self) -> pd.DataFrame:
        """A row for each stage: "measures", "share" of the price, "adaptive", "bound", "noise", "numbers" released."""
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
        """A row for each number that is released: "family" of its noise, "scale" and "std dev" in units of the number.

        "std dev" is empty for a choice, of which the noise is not released.
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
    """Read what is to be expected: sentences, and tables below lines that end with a colon."""
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
    """Make a table of rows; the first is that of the heads where it lacks the name that others have."""
    width = max(map(len, rows))
    heads = [""] * (width - len(rows[0])) + rows.pop(0) if len(rows) > 1 and len(rows[0]) < width else [""] * width
    cells = tuple(tuple(row) for row in rows)
    return Table(tuple(heads), cells, frozenset({1}) if width == 2 else frozenset(), 0, heading.removesuffix(":"))


def sizes_shown(nobs: int | None) -> tuple[int, ...]:
    """Return numbers of rows to show noise for: the public one, or several."""
    return (1_000, 10_000, 100_000) if nobs is None else (nobs,)


def first_error(priced: Measurement | PricedStage) -> float:
    """Return the standard deviation of the noise of the first sum that is released."""
    return float(np.sqrt(priced.law.variances[0])) * priced.steps[0]
