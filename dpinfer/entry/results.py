"""Results on data at first sight: how good they are, with advice; and bounds of columns."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.entry.inference import bounded
from dpinfer.errors import InferenceError, names_of
from dpinfer.results import printing
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.drawing import given_or_new
from dpinfer.results.printing import PrivateSummary, cell_table, summary_of
from dpinfer.results.testing import check_alpha
from dpinfer.schema.columns import CELL_CLASSES, ROWS_KEPT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dpinfer.entry.inference import Quality
    from dpinfer.release import Release
    from dpinfer.results.printing import Facts
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.combination import LinearNoise

    Ends = Mapping[str, tuple[float, float]]

__all__ = ["BoundsResults", "QualityResults"]


class CellCountResults(DescriptionResults):
    """Counts by column and class: what the results of both questions share.

    Parameters
    ----------
    inference, release, model_name, response
        As in `DescriptionResults`.
    **own
        What else the results are made of.
    """

    _classes = "class"

    def __init__(self, inference: LinearNoise, release: Release, model_name: str, response: str, **own: Any) -> None:
        pairs = [name.rpartition(": ")[::2] for name in inference.names]
        index = pd.MultiIndex.from_tuples(pairs, names=["column", self._classes])
        super().__init__(inference, release, model_name=model_name, response=response, quantity="count", index=index)
        self._own = own

    def _labels(self) -> dict[str, Any]:
        return self._own

    @abstractmethod
    def _shown(self, alpha: float) -> tuple[pd.DataFrame, Facts, str, Sequence[str]]:
        """Return cells by column, what stands above them, how to read them, and further notes."""

    def summary(
        self,
        yname: str | None = None,  # noqa: ARG002  (there is no response)
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> PrivateSummary:
        """Return a table, a line a column: of shares, with the advice as its last notes; or of bounds.

        Parameters
        ----------
        yname : str, optional
            Not used.
        xname : sequence of str, optional
            Other names for the columns.
        title : str, optional
            Another title.
        alpha : float
            One minus the confidence of the margins of shares.
        """
        frame, left, reading, more = self._shown(alpha)
        release, names = self.release, list(frame.index if xname is None else xname)
        notes = [printing.guarantee(release), reading, *printing.column_notes(release), *printing.charge_notes(release)]
        table = cell_table(frame.to_numpy().tolist(), list(map(str, frame)), names)
        right, title = printing.guarantee_facts(release), title or self._model_name
        return summary_of(title, left, right, table, [*notes, *more], self.flags)

    def __str__(self) -> str:
        return str(self.summary())


_COLORS = ("#c9d3df", "#88ccee", "#4477aa", "#999999", "#cc6677", "#aa4499")
"""Of the classes of cells."""


class QualityResults(CellCountResults):
    """Noisy counts of cells by class, for every column, and of rows that a model of all columns keeps.

    ``params``, ``bse``, ``conf_int()`` and ``summary_frame()`` are of the counts, by column and class.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    quality : Quality
        What the release says.

    Attributes
    ----------
    advice : tuple of str
        What is beyond noise and matters, in sentences. Empty where nothing is, and also where the number of rows
        itself is lost in noise, so that nothing can be said: `summary` says which.
    """

    def __init__(self, inference: LinearNoise, release: Release, *, quality: Quality) -> None:
        super().__init__(inference, release, "Private data quality", ", ".join(quality.schema), quality=quality)
        self._quality = quality

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences on what is beyond noise, and matters; none where the number of rows is lost in noise.

        A function of the release alone.
        """
        return tuple(one.text for one in self._quality.advice)

    @property
    def rows(self) -> float:
        """Number of rows: public, or noisy."""
        return self._quality.rows

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a row for each column: noisy counts and shares by class.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the margins.

        Returns
        -------
        DataFrame
            Columns "valid", "clamped low", "clamped high", "missing", "impossible" and "unknown level" hold counts,
            with NaN where a column has no such class: only numbers and dates have bounds, and every cell of a Category
            that is no level is unknown. "margin" is half the width of the interval of a count. "valid share" and so on
            are shares of the rows, moved into 0 to 1, and "share margin" is the largest half width of their intervals:
            their standard deviations times the "margin" of a count over its own, and where the number of rows is noisy
            times the normal quantile if this is larger.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        margin = float(np.ptp(self.conf_int(check_alpha(alpha)).to_numpy()[0])) / 2
        found, spread = self._quality, margin / np.sqrt(self._quality.variance)
        if found.public is None:  # noise of the number of rows is a mean of many draws
            spread = max(spread, stats.norm.isf(alpha / 2))
        shares = found.share(found.cells).add_suffix(" share")
        widest = spread * np.sqrt(found.share_variance(found.cells).max(axis=1))
        return found.cells.assign(margin=margin).join(shares).assign(**{"share margin": widest})

    def _shown(self, alpha: float) -> tuple[pd.DataFrame, Facts, str, Sequence[str]]:
        frame, found = self.frame(alpha), self._quality
        shares = (
            frame.filter(regex=" share$").dropna(axis=1, how="all").rename(columns=lambda name: name[: -len(" share")])
        )
        cells = shares.map(lambda share: "" if np.isnan(share) else f"{share:.1%}")
        cells["+/-"] = [f"{100 * margin:.1f}" for margin in frame["share margin"]]
        left = [
            ("Rows:", printing.format_count(found.rows, public=found.public is not None)),
            ("Rows kept by a model of all:", printing.format_count(found.counts[-1], public=False)),
        ]
        reading = (
            f"Shares of all rows; +/- is the largest half width of their {1 - alpha:.0%} intervals, in percentage "
            f"points. Every count has an interval of {frame['margin'].iloc[0]:,.4g} rows on either side."
        )
        silence = "Nothing that matters is beyond noise."
        if found.lost:
            noisy = found.public is None
            lost = "The number of rows itself is lost in noise" if noisy else "All rows together are within noise"
            silence = f"{lost}: nothing can be said of the cells. Ask for fewer columns, or at a higher price."
        return cells, left, reading, self.advice or (silence,)

    def __repr__(self) -> str:
        said = f"{len(self._quality.schema)} columns, {len(self.advice)} sentences of advice"
        return f"<QualityResults: {said}, {printing.title_guarantee(self.release)}>"

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Draw a bar for each column, of the shares of its classes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the margin that the label of the axis tells.
        color : str, optional
            Colour of the valid cells.

        Returns
        -------
        matplotlib.axes.Axes
        """
        frame = self.frame(alpha)
        ax = given_or_new(ax, 7.0, 1.3 + 0.36 * (len(frame) + 1))
        shares = frame.filter(regex=" share$").fillna(0.0).to_numpy().T
        fills = _COLORS if color is None else (color, *_COLORS[1:])
        for one, width, left, fill in zip(CELL_CLASSES, shares, shares.cumsum(axis=0) - shares, fills, strict=True):
            if frame[one].notna().any():
                ax.barh(range(len(frame)), width, left=left, color=fill, label=one, height=0.7)
        share = self._quality.share(self._quality.counts[-1])
        ax.barh(len(frame), share, color="none", edgecolor="grey", hatch="///", height=0.7, label=ROWS_KEPT)
        ax.set_yticks(range(len(frame) + 1), [*map(str, frame.index), "rows kept by a model of all"])
        ax.invert_yaxis()
        ax.set_xlim(0, 1.0)
        ax.set_xlabel(f"share of rows (+/- {frame['share margin'].max():.2g} for noise, {1 - alpha:.0%})")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(f"Data quality: {printing.title_guarantee(self.release)}", fontsize="medium")
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
        return ax


class BoundsResults(CellCountResults):
    """Bounds of columns, found from noisy counts in signed octaves.

    ``params``, ``bse``, ``conf_int()`` and ``summary_frame()`` are of the counts, by column and octave.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    found : mapping of str to (lower, upper)
        NaN where nothing is beyond noise.
    threshold : float
        Counts above it are beyond noise.
    margin : int
        Octaves that were added beyond the outermost occupied ones.
    """

    _classes = "octave"

    def __init__(self, inference: LinearNoise, release: Release, *, found: Ends, threshold: float, margin: int) -> None:
        own = {"found": found, "threshold": threshold, "margin": margin}
        super().__init__(inference, release, "Private bounds", ", ".join(release.question["columns"]), **own)
        self._found, self._schema, self.threshold, self.margin = dict(found), release.schema, threshold, margin

    @property
    def flags(self) -> tuple[str, ...]:
        """One sentence for each column whose bounds are not determined."""
        right = "pay more, or declare bounds from public knowledge"
        return tuple(f"{name}: not determined; no octave is beyond noise: {right}." for name in self._missing)

    @property
    def _missing(self) -> list[str]:
        return [name for name, (lower, _) in self._found.items() if math.isnan(lower)]

    @property
    def bounds(self) -> pd.DataFrame:
        """Bounds by column: "lower" and "upper" (NaN where not determined), "declared lower", "declared upper"."""
        lines = [(*ends, *self._schema[name].limits) for name, ends in self._found.items()]
        titles = ["lower", "upper", "declared lower", "declared upper"]
        return pd.DataFrame(lines, columns=titles, index=pd.Index(list(self._found), name="column"), dtype=np.float64)

    @property
    def schema(self) -> Schema:
        """The whole schema of the data, with these bounds, for ``PrivateData(frame, results.schema, ledger)``.

        Constants that stand for missing and impossible cells stay within the bounds, which are widened for them.

        Raises
        ------
        InferenceError
            Where the bounds of a column are not determined.
        """
        if self._missing:
            raise InferenceError(
                f"the bounds of {names_of(self._missing)} are not determined: no octave is beyond noise. Pay more, or "
                "declare bounds from public knowledge"
            )
        return self._schema.replace({name: bounded(self._schema[name], *ends) for name, ends in self._found.items()})

    def _shown(self, alpha: float) -> tuple[pd.DataFrame, Facts, str, Sequence[str]]:  # noqa: ARG002  (no intervals)
        cells = self.bounds.map(lambda end: "" if math.isnan(end) else f"{end:,.6g}")
        cells["lower"] = cells["lower"].replace("", "not determined")
        left = [
            ("Counts beyond noise:", f"above {self.threshold:,.4g}"),
            ("Margin:", f"{self.margin} octave{'' if self.margin == 1 else 's'}"),
        ]
        reading = (
            "Bounds hold the outermost octaves with a count beyond noise, and the margin. Further out there may be "
            "rows, too few to be seen: they are clamped."
        )
        return cells, left, reading, ()

    def __repr__(self) -> str:
        said = f"{len(self._found)} columns, {len(self._missing)} not determined"
        return f"<BoundsResults: {said}, {printing.title_guarantee(self.release)}>"
