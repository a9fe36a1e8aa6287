"""What `explain` returns: a text that shows as tables in a notebook, with what it tells as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pandas as pd

from dpinfer.display.report import Report, Table
from dpinfer.kernel.wording import measures, noise_in_words

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy

__all__ = ["Explanation"]


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
    ('measures     2 sums: age, rows counted', [1.0])
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
            (measures(stage.rows), float(slot.share), slot.adaptive, told.bound_of(stage), noise_in_words(stage),
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
            spread = pd.Series(law.variances, dtype=float) ** 0.5 * steps if hasattr(law, "variances") else None
            part = pd.DataFrame({"stage": place, "family": law.family, "scale": pd.Series(law.scales) * steps})
            frames.append(part.assign(**{"std dev": spread}).set_axis(list(stage.names)))
        return pd.concat(frames)

    def _report(self) -> Report:
        told = self._measurement
        own = {"stage", "bound", "noise"}
        facts = [fact for fact in told.facts if fact[0].split()[0] not in own]
        if told.text != facts[0][1]:
            facts.insert(0, ("question", told.text))
        table = Table.of(self.stages.drop(columns="adaptive" if not self.stages["adaptive"].any() else []))
        described = set(told.describe().splitlines())
        notes = _sentences([line for line in self.splitlines() if line not in described])
        shown = [note for note in notes if not note.startswith("question ")]
        return Report(f"{told.text}, at {self.privacy}", tuple(facts), (table,), tuple(shown))

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return self._report().html()


def _sentences(lines: list[str]) -> list[str]:
    """Join lines that go on; those that begin with spaces or a head of their own stand alone."""
    return [" ".join(line.split()) for line in lines]
