"""Results on the quality of data: counts and shares of classes of cells, with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.results.contrasts import check_alpha
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.printing import PrivateSummary, cell_table, summary_of
from dpinfer.results.style import given_or_new
from dpinfer.results.wording import (
    charge_notes,
    column_notes,
    format_count,
    guarantee,
    guarantee_facts,
    title_guarantee,
)
from dpinfer.schema.columns import CELL_CLASSES, ROWS_KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.inference.linear_noise import LinearNoise
    from dpinfer.release import Release
    from dpinfer.release.quality import Quality

__all__ = ["QualityResults"]

_COLORS = dict(
    zip(CELL_CLASSES, ("#c9d3df", "#88ccee", "#4477aa", "#999999", "#cc6677", "#aa4499"), strict=True),
)


class QualityResults(DescriptionResults):
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

    def __init__(self, inference: LinearNoise, release: Release, *, quality: Quality, **labels: Any) -> None:
        super().__init__(inference, release, **labels)
        self._quality = quality

    def _labels(self) -> dict[str, Any]:
        return {**super()._labels(), "quality": self._quality}

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
        found, names = self._quality, list(self._quality.schema)
        counts = {one: [found.count(name, one) for name in names] for one in CELL_CLASSES}
        shares = {f"{one} share": [found.share(value) for value in listed] for one, listed in counts.items()}
        spread = margin / np.sqrt(found.variance)
        if found.public is None:  # noise of the number of rows is a mean of many draws
            spread = max(spread, stats.norm.isf(alpha / 2))
        widest = [
            spread
            * np.sqrt(
                max(found.share_variance(listed[place]) for listed in counts.values() if listed[place] == listed[place])
            )
            for place in range(len(names))
        ]
        data = {**counts, "margin": margin, **shares, "share margin": widest}
        return pd.DataFrame(data, index=pd.Index(names, name="column"))

    def summary(
        self,
        yname: str | None = None,  # noqa: ARG002  (there is no response)
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> PrivateSummary:
        """Return a table of shares, a line a column, with the advice as its last notes.

        Parameters
        ----------
        yname : str, optional
            Not used.
        xname : sequence of str, optional
            Other names for the columns.
        title : str, optional
            Another title.
        alpha : float
            One minus the confidence of the margins.
        """
        frame, found = self.frame(alpha), self._quality
        shares = frame[[f"{one} share" for one in CELL_CLASSES]].dropna(axis=1, how="all")
        cells = [
            [*("" if np.isnan(share) else f"{share:.1%}" for share in line), f"{100 * margin:.1f}"]
            for line, margin in zip(shares.to_numpy(), frame["share margin"], strict=True)
        ]
        headers = [*(name.removesuffix(" share") for name in shares.columns), "+/-"]
        table = cell_table(cells, headers, list(frame.index) if xname is None else list(xname))
        left = [
            ("Rows:", format_count(found.rows, public=found.public is not None)),
            ("Rows kept by a model of all:", format_count(found.kept, public=False)),
        ]
        notes = [
            guarantee(self.release),
            f"Shares of all rows; +/- is the largest half width of their {1 - alpha:.0%} intervals, in percentage "
            f"points. Every count has an interval of {frame['margin'].iloc[0]:,.4g} rows on either side.",
            *column_notes(self.release),
            *charge_notes(self.release),
            *(self.advice or (self._silence,)),
        ]
        return summary_of(title or "Private data quality", left, guarantee_facts(self.release), table, notes)

    @property
    def _silence(self) -> str:
        """Say why there is no advice."""
        if not self._quality.lost:
            return "Nothing that matters is beyond noise."
        what = (
            "The number of rows itself is lost in noise"
            if self._quality.public is None
            else "All rows together are within noise"
        )
        return f"{what}: nothing can be said of the cells. Ask for fewer columns, or at a higher price."

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        told = f"{len(self._quality.schema)} columns, {len(self.advice)} sentences of advice"
        return f"<QualityResults: {told}, {title_guarantee(self.release)}>"

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
        place, left = np.arange(len(frame) + 1), np.zeros(len(frame))
        for one, fill in {**_COLORS, **({} if color is None else {CELL_CLASSES[0]: color})}.items():
            width = frame[f"{one} share"].fillna(0.0).to_numpy()
            if frame[one].notna().any():
                ax.barh(place[:-1], width, left=left, color=fill, label=one, height=0.7)
            left += width
        kept = self._quality.share(self._quality.kept)
        ax.barh(place[-1], kept, color="none", edgecolor="grey", hatch="///", height=0.7, label=ROWS_KEPT)
        ax.set_yticks(place, [*map(str, frame.index), "rows kept by a model of all"])
        ax.invert_yaxis()
        ax.set_xlim(0, 1.0)
        ax.set_xlabel(f"share of rows (+/- {frame['share margin'].max():.2g} for noise, {1 - alpha:.0%})")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(f"Data quality: {title_guarantee(self.release)}", fontsize="medium")
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
        return ax
