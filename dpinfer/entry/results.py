"""Results of a first look at data: quality with advice, and bounds of columns."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import InferenceError, names_of
from dpinfer.release.laws import NoiseLaw
from dpinfer.release.release import ADVICE, Advice
from dpinfer.results import printing
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.drawing import given_or_new
from dpinfer.results.printing import PrivateSummary, cell_table, summary_of
from dpinfer.results.testing import check_alpha
from dpinfer.schema.columns import (
    CELL_CLASSES,
    DROP,
    HIGH,
    LOW,
    ROWS_KEPT,
    UNKNOWN,
    Boolean,
    Date,
    Integer,
    Real,
    cell_classes,
)
from dpinfer.schema.columns import MISSING_CELL as MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.results.printing import Facts
    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.combination import LinearNoise

    Ends = Mapping[str, tuple[float, float]]

__all__ = ["QUALITY", "BoundsResults", "Quality", "QualityResults", "bounded", "occupied_from", "octave_bounds"]


class CellCountResults(DescriptionResults):
    """Counts by column and class, the base of both results.

    Parameters
    ----------
    inference, release, model_name, response
        As in `DescriptionResults`.
    **own
        Further arguments of the results.
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
        """Return cells by column, their headings, how to read them, and further notes."""

    def summary(
        self,
        yname: str | None = None,  # noqa: ARG002  (there is no response)
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> PrivateSummary:
        """Return a table with a line per column: shares, with the advice as last notes, or bounds.

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
        notes = [printing.guarantee_note(release), reading, *printing.column_notes(release)]
        table = cell_table(frame.to_numpy().tolist(), list(map(str, frame)), names)
        right, title = printing.guarantee_facts(release), title or self._model_name
        return summary_of(title, left, right, table, [*notes, *more], self.flags)

    def __str__(self) -> str:
        return str(self.summary())


_COLORS = ("#c9d3df", "#88ccee", "#4477aa", "#999999", "#cc6677", "#aa4499")
"""Of the classes of cells."""


class QualityResults(CellCountResults):
    """Noisy counts of cells by column and class, and of the rows that a model of all columns keeps.

    ``params``, ``bse``, ``conf_int()`` and ``summary_frame()`` refer to the counts, by column and class.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    quality : Quality
        The counts in the release.

    Attributes
    ----------
    advice : tuple of str
        Sentences on findings that exceed the noise and matter. Empty if there are none, and also if noise hides the
        number of rows itself, so that nothing can be inferred; `summary` tells which.
    """

    def __init__(self, inference: LinearNoise, release: Release, *, quality: Quality) -> None:
        super().__init__(inference, release, "Private data quality", ", ".join(quality.schema), quality=quality)
        self._quality = quality

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences on findings that exceed the noise and matter; empty if noise hides the number of rows.

        They are a function of the release alone.
        """
        return tuple(one.text for one in self._quality.advice)

    @property
    def rows(self) -> float:
        """The number of rows, public or noisy."""
        return self._quality.rows

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a table of noisy counts and shares by class, a row per column.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the margins.

        Returns
        -------
        DataFrame
            Columns "valid", "clamped low", "clamped high", "missing", "impossible" and "unknown level" hold counts,
            with NaN if a column has no such class: only numbers and dates have bounds, and in a Category every cell
            that is not a level is unknown. "margin" is the half width of the interval of a count. "valid share" and so
            on are shares of the rows, clipped to 0 to 1, and "share margin" is the largest half width of their
            intervals: their standard deviation times the ratio of "margin" to the standard deviation of a count or, if
            the number of rows is noisy, times the normal quantile if that is larger.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
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
        silence = "No relevant finding exceeds the noise."
        if found.lost:
            noisy = found.public is None
            lost = "Noise hides the number of rows itself" if noisy else "All rows together are within noise"
            silence = (
                f"{lost}: nothing can be inferred about the cells. Ask for fewer columns, or use a larger privacy "
                "budget."
            )
        return cells, left, reading, self.advice or (silence,)

    def __repr__(self) -> str:
        said = f"{len(self._quality.schema)} columns, {len(self.advice)} sentences of advice"
        return f"<QualityResults: {said}, {printing.title_guarantee(self.release)}>"

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot the shares of the classes as a bar for each column.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.
        alpha : float
            One minus the confidence of the margin in the axis label.
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

    ``params``, ``bse``, ``conf_int()`` and ``summary_frame()`` refer to the counts, by column and octave.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    found : mapping of str to (lower, upper)
        NaN if no count exceeds the noise.
    threshold : float
        Counts above it exceed the noise.
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
        right = "use a larger privacy budget, or declare bounds from public knowledge"
        return tuple(
            f"{name}: not determined; no count of an octave exceeds the noise: {right}." for name in self._missing
        )

    @property
    def _missing(self) -> list[str]:
        return [name for name, (lower, _) in self._found.items() if math.isnan(lower)]

    @property
    def bounds(self) -> pd.DataFrame:
        """Bounds by column: "lower" and "upper" (NaN if not determined), "declared lower", "declared upper"."""
        lines = [(*ends, *self._schema[name].limits) for name, ends in self._found.items()]
        titles = ["lower", "upper", "declared lower", "declared upper"]
        return pd.DataFrame(lines, columns=titles, index=pd.Index(list(self._found), name="column"), dtype=np.float64)

    @property
    def schema(self) -> Schema:
        """The whole schema with these bounds, for ``PrivateData(frame, results.schema, ledger)``.

        The bounds are widened to include constants for missing and impossible cells.

        Raises
        ------
        InferenceError
            If the bounds of a column are not determined.
        """
        if self._missing:
            raise InferenceError(
                f"the bounds of {names_of(self._missing)} are not determined: no octave exceeds the noise. Use a "
                "larger budget, or declare bounds from public knowledge"
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
            "Bounds contain the outermost octaves whose count exceeds the noise, and the margin. Rows further out, too "
            "few to be detected, are clamped."
        )
        return cells, left, reading, ()

    def __repr__(self) -> str:
        said = f"{len(self._found)} columns, {len(self._missing)} not determined"
        return f"<BoundsResults: {said}, {printing.title_guarantee(self.release)}>"


# Bounds


def occupied_from(law: NoiseLaw, false_alarm: float) -> float:
    """Return the count that the noise of any empty cell exceeds with probability at most ``false_alarm``.

    All m cells have noise of one scale; the bound is Bonferroni's.
    """
    one = NoiseLaw(law.family, law.scales[:1], law.draws)
    return float(one.quantile(1 - false_alarm / len(law.scales))[0])


def octave_bounds(counts: Array, ends: Array, threshold: float, margin: int) -> Array:
    """Return the outermost occupied octaves of R releases, with a margin, as bounds (R, 2).

    Parameters
    ----------
    counts : ndarray (R, k)
        Noisy counts of octaves, ascending.
    ends : ndarray (k + 1,)
        Ends of the octaves; the outer ones are declared bounds, which are never exceeded.
    threshold : float
        An octave with a count above it is occupied.
    margin : int
        Octaves to add beyond the outermost occupied one, on each side.

    Returns
    -------
    ndarray (R, 2)
        NaN if no octave is occupied.
    """
    occupied = counts > threshold
    size = counts.shape[1]
    first = np.maximum(occupied.argmax(axis=1) - margin, 0)
    last = np.minimum(size - occupied[:, ::-1].argmax(axis=1) + margin, size)
    found = np.stack([ends[first], ends[last]], axis=1)
    return np.where(occupied.any(axis=1, keepdims=True), found, np.nan)


def bounded(column: Column, lower: float, upper: float) -> Column:
    """Return a numeric column with other bounds, widened to include constants of policies."""
    assert isinstance(column, Real)
    held = [float(one) for one in (column.missing, column.impossible) if one != DROP]
    lower, upper = min(lower, *held, lower), max(upper, *held, upper)
    if isinstance(column, Integer):
        return replace(column, lower=math.floor(lower), upper=math.ceil(upper))
    return replace(column, lower=lower, upper=upper)


# Quality

QUALITY = "quality"
"""Kind of the releases that are read here."""

_FALSE_ALARM = 1e-3
"""Probability of any advice at all on perfect data, for the noise."""

_LEAST_SDS = 3.0

_RELEVANT = {MISSING: 0.05, ROWS_KEPT: 0.05}
"""Shares from which something is worth a sentence; of others `_USUALLY`."""
_USUALLY = 0.01

_TAKES: dict[type[Column], str] = {
    Date: "dates, or their texts such as 2024-01-31, but not plain numbers",
    Integer: "whole numbers; others need Real, dates need Date, texts such as NA missing_codes=",
    Real: "numbers; dates need Date, texts such as NA missing_codes=",
}
"""What may help where cells are impossible."""

_CODES: dict[str, tuple[object, ...]] = {LOW: (-9, -99, -999, -9999), HIGH: (999, 9999, 99_999)}
_DATE_CODES: dict[str, tuple[object, ...]] = {LOW: ("1900-01-01", "0001-01-01"), HIGH: ("9999-12-31",)}
"""Codes that surveys use for no answer, by the side on which they are clamped."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Noisy counts of cells by class, and of rows kept.

    Attributes
    ----------
    schema : Schema
        The counted columns.
    counts : ndarray (m,)
        The classes of each column, in the order of the columns; then the rows kept.
    variance : float
        Noise variance of every count.
    limit : float
        Threshold that any count of nothing exceeds with probability at most `_FALSE_ALARM`.
    public : int or None
        The number of rows if public.
    """

    schema: Schema
    counts: Array
    variance: float
    limit: float
    public: int | None

    @classmethod
    def read(cls, release: Release) -> Quality | None:
        """Read a release; None if it does not hold such counts."""
        schema, law = release.schema, release.law
        names = [f"{name}: {one}" for name, column in schema.items() for one in cell_classes(column)]
        plain = law.family in ("gaussian", "laplace") and law.draws == 1 and len(set(law.scales)) == 1
        if not plain or (*names, ROWS_KEPT) != release.names:
            return None
        noise = float(release.noise_variances[0])
        tail = NoiseLaw(law.family, law.scales[:1]).quantile(1 - _FALSE_ALARM / len(names))[0] * release.steps[0]
        limit = max(float(tail), _LEAST_SDS * float(np.sqrt(noise)))
        return cls(schema, release.array, noise, limit, release.nobs)

    @property
    def places(self) -> list[tuple[str, str]]:
        """Column and class of each count of cells."""
        return [(name, one) for name, column in self.schema.items() for one in cell_classes(column)]

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Counts by column and class (K, 6); NaN if a column has no such class."""
        found = pd.Series(self.counts[:-1], index=pd.MultiIndex.from_tuples(self.places)).unstack()  # noqa: PD010
        return found.reindex(index=pd.Index(list(self.schema), name="column"), columns=list(CELL_CLASSES))

    @cached_property
    def rows(self) -> float:
        """Number of rows: public, or the mean over columns of the sums of their counts."""
        return float(self.public) if self.public is not None else float(self.counts[:-1].sum() / len(self.schema))

    @cached_property
    def rows_variance(self) -> float:
        """Variance of `rows`."""
        return 0.0 if self.public is not None else self.variance * (len(self.counts) - 1) / len(self.schema) ** 2

    def share(self, count: Any) -> Any:
        """Return counts as shares of the rows, clipped to 0 to 1; NaN if noise hides the number of rows."""
        return np.minimum(np.maximum(count / self.rows, 0.0), 1.0) if self.rows > 0 else count * np.nan

    def share_variance(self, count: Any) -> Any:
        """Return the delta-method variance of counts over the number of rows; infinite if noise hides the latter."""
        if self.rows <= 0:
            return count * 0 + np.inf
        share, both = self.share(count), 0.0 if self.public is not None else self.variance / len(self.schema)
        return np.maximum(self.variance - 2 * share * both + share**2 * self.rows_variance, 0.0) / self.rows**2

    @property
    def lost(self) -> bool:
        """Whether noise hides the number of rows, so that nothing can be inferred about cells."""
        return self.rows <= self.limit

    # In words

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Sentences on findings that exceed the noise and matter."""
        found: list[Advice] = []
        for (name, one), count in zip(self.places, self.counts[:-1].tolist(), strict=True):
            much = self._much(count, one, self.limit) if one in CELL_CLASSES[1:] else None
            if much is not None:
                found.append(Advice((name,), f"{much} cells of {name} {_fault(self.schema[name], one)}"))
        limit = self.limit * float(np.sqrt(1 + self.rows_variance / self.variance))  # of a difference of two
        much = self._much(self.rows - float(self.counts[-1]), ROWS_KEPT, limit)
        if much is not None and len(self.schema) > 1:
            text = f"{much} rows are left out of a model of all {len(self.schema)} columns."
            found.append(Advice(tuple(self.schema), text))
        return tuple(found)

    def _much(self, count: float, one: str, limit: float) -> str | None:
        """Write a count as a share of all; None if it is within noise, or small."""
        if self.lost or count <= limit or count < _RELEVANT.get(one, _USUALLY) * self.rows:
            return None
        share, rest = self.share(count), self.rows - count
        return "All" if rest <= self.limit and share > 0.9 else f"About {share:.0%} of the"


def _advice_of(release: Release) -> tuple[Advice, ...]:
    found = Quality.read(release)
    return () if found is None else found.advice


ADVICE[QUALITY] = _advice_of


def _fault(column: Column, one: str) -> str:
    """Describe the problem with the cells of a class, their treatment, and a remedy."""
    if one in (LOW, HIGH):
        assert isinstance(column, Real)
        side, bound, beyond = ("below", "lower", column.lower) if one == LOW else ("above", "upper", column.upper)
        end = column.describe().strip("[]").split(", ")[one == HIGH]
        usual = (_DATE_CODES if isinstance(column, Date) else _CODES)[one]
        values = column.meaning(np.array(usual, dtype=object))  # NaN where it is declared as missing
        clamped = (values < beyond if one == LOW else values > beyond) & np.isfinite(values)
        code = f"such as {usual[clamped.argmax()]!r}" if clamped.any() else "of no answer"
        fate = f"are {side} the {bound} bound {end} and are clipped to it"
        return f"{fate}: widen the bound, or declare codes {code} in missing_codes=."
    policy = column.missing if one == MISSING else column.impossible
    fate = (
        "their rows are left out" if isinstance(policy, str) and policy == DROP else f"they are replaced by {policy!r}"
    )
    if one == MISSING:
        return f"are missing: {fate}."
    if one == UNKNOWN:
        return (
            f"are not a declared level ({column.describe()}): {fate}. Compare the levels with the codebook, letter by "
            "letter; cells that hold codes need codes=, and those of no answer missing_codes=."
        )
    takes = _TAKES.get(type(column), "one of the declared codes; codes such as 1 and 2 need Boolean(true=1, false=2)")
    if isinstance(column, Boolean) and column.true is None:
        takes = takes.replace("one of the declared codes", "True or False, or 0 or 1")
    bare = replace(column, missing=DROP, impossible=DROP, label="", unit="", source="")
    return f"are impossible for a column declared as {bare!r}: {fate}. It takes {takes}."
