"""How far estimates without noise are spread in the population that a study draws from: what its oracle knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch
from dpinfer.schema.cells import Coded
from dpinfer.studies.engine import draw_columns, quiet_estimates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.design import Design

__all__ = ["Spread", "choose", "of_replicates", "of_rows"]

_GROUPS = (2**12, 2**16)
"""Least and most groups of rows from which a spread is estimated; in between 16 for every replicate."""

_TOGETHER = 16
"""Rows of a group, about."""

_APART = 5.0
"""Standard errors between two estimates of a variance from which rows do not count as independent."""

_KNOWN = 0.5
"""Relative standard error from which the variance of replicates counts as not known."""

_STEP = 1e-3
"""Step of a derivative, in standard deviations of a sum."""

_FEWEST = 20
"""Replicates from which their own spread counts as known."""

_AT_ONCE = 2**10
"""Groups that are looked at together, at least."""

_LARGEST = 2**23
"""Entries of a derivative, above which the replicates' own spread is taken."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Sampling variances of estimates without noise.

    Attributes
    ----------
    variance : ndarray (q,)
        NaN where it is not known.
    error : ndarray (q,)
        Its Monte Carlo standard error, relative to it.
    """

    variance: Array
    error: Array


def choose(rows: Spread | None, replicates: Spread) -> Spread:
    """Choose between the spread by rows and that of the replicates.

    By rows it is the more precise one, and right where rows are independent and alike. Where the replicates are spread
    otherwise by more than `_APART` standard errors, they are not, and the replicates' own spread is taken: for
    independent rows an event of probability 6e-7 for every quantity, as far as estimates are normal. A spread that
    a few replicates make alone, so that it is hardly known, tells nothing.
    """
    if rows is None:
        return replicates
    with np.errstate(all="ignore"):
        distance = np.abs(replicates.variance - rows.variance)
        error = np.hypot(replicates.error, rows.error) * rows.variance
        apart = (distance > _APART * error) & (distance > 1e-9 * rows.variance)
        own = np.isnan(rows.variance) | (apart & (replicates.error < _KNOWN))
    return Spread(
        np.where(own, replicates.variance, rows.variance),
        np.where(own, replicates.error, rows.error),
    )


def of_replicates(estimates: Array) -> Spread:
    """Spread of estimates without noise (R, q), those of the data sets of a study; failed ones are NaN."""
    done = estimates[np.isfinite(estimates).all(axis=1)]
    if len(done) < _FEWEST:
        unknown = np.full(estimates.shape[1], np.nan)
        return Spread(unknown, unknown)
    moments = _Moments(estimates.shape[1])
    moments.add(done - done.mean(axis=0))
    return moments.spread(len(done) / (len(done) - 1))


def of_rows(design: Design, size: int, expected: Array) -> tuple[Spread, Array] | None:
    """Spread by the influence of rows: n J' V J, the sandwich of whatever is estimated.

    V is the covariance of the sums of one row, and J the derivative of the estimates in the sums, at their expectation
    and without noise. Rows are a public sample of the population, by a seed that follows from the study's. They are
    added up in groups of about 16, which makes their law more nearly normal.

    Parameters
    ----------
    design : Design
    size : int
        Index into the numbers of rows.
    expected : ndarray (m,)
        Expected sums of whole numbers, without noise.

    Returns
    -------
    tuple of Spread and ndarray (m, q), or None
        With J in units of the released features; None where there are too many sums, rows cannot be drawn, or sums
        have no estimate.
    """
    n = design.n[size]
    measured = design.measured(design.privacy[0], n)
    groups = max(1, n // _TOGETHER)
    each = n // groups
    try:
        center = quiet_estimates(design, measured, expected[None])[0]
    except np.linalg.LinAlgError:  # what no row tells of
        return None
    if expected.size * center.size > _LARGEST:
        return None
    wanted = int(np.clip(_TOGETHER * design.replicates, *_GROUPS))
    slope: Array | None = None
    moments = _Moments(center.size)
    for sums in _grouped(design, size, measured, groups, each, wanted):
        away = sums - expected * (each / n)
        if slope is None:
            usual = (
                np.sqrt(n) * measured.rows.units
            )  # of sums that are the same in all data sets, as their number of rows
            spread = away.std(axis=0) * np.sqrt(n / each)
            slope = _slope(design, measured, expected, np.where(spread > 0, spread, usual))
        moments.add(away @ slope)
    return None if slope is None else (moments.spread(n / each), slope * measured.rows.units[:, None])


def _grouped(design: Design, size: int, measured: Measurement, groups: int, each: int, wanted: int) -> Iterator[Array]:
    """Yield sums of whole numbers (k, m) of groups of rows, until there are as many as wanted."""
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31, 1 + size)))
    rows, together = measured.rows, max(1, CHUNK_ROWS // each)
    found: list[Array] = []
    for left in reversed(range(-(-wanted // groups))):
        try:
            columns = draw_columns(design, rng, design.n[size])
        except Exception:  # counted where the study itself draws
            continue
        for start in range(0, groups, together):
            count = min(together, groups - start)
            part = slice(start * each, (start + count) * each)
            cells = {name: _rows_of(columns[name], part) for name in rows.columns}
            found.append(rows.add(Batch(cells, count * each, sets=count)).astype(np.float64))
        if not left or sum(map(len, found)) >= _AT_ONCE:
            yield rows.finish_sets(np.concatenate(found))
            found = []


def _rows_of(cells: Any, part: slice) -> Any:
    return Coded(cells.codes[part], cells.values) if isinstance(cells, Coded) else cells[part]


def _slope(design: Design, measured: Measurement, expected: Array, spread: Array) -> Array:
    """Return the derivative of the estimates in the sums (m, q), by central differences."""
    steps = _STEP * spread
    parts = []
    together = max(1, 2**18 // expected.size)
    for start in range(0, expected.size, together):
        moved = np.zeros((min(together, expected.size - start), expected.size))
        places = np.arange(start, start + len(moved))
        moved[np.arange(len(moved)), places] = steps[places]
        ends = quiet_estimates(design, measured, np.concatenate([expected + moved, expected - moved]))
        parts.append((ends[: len(moved)] - ends[len(moved) :]) / (2 * steps[places, None]))
    return np.concatenate(parts)


class _Moments:
    """Second and fourth moments (q,) of deviations that are added in parts."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.sums = np.zeros((3, width))

    def add(self, away: Array) -> None:
        """Add deviations (k, q) from about their mean."""
        self.count += len(away)
        self.sums += [away.sum(axis=0), (away**2).sum(axis=0), (away**4).sum(axis=0)]

    def spread(self, factor: float) -> Spread:
        """Return their variance, times a factor, with its error."""
        if self.count == 0:
            unknown = np.full(self.sums.shape[1], np.nan)
            return Spread(unknown, unknown)
        mean, second, fourth = self.sums / self.count
        variance = np.maximum(second - mean**2, 0.0)
        with np.errstate(all="ignore"):
            kurtosis = np.where(variance > 0, fourth / np.maximum(variance, 1e-300) ** 2, 1.0)
        return Spread(factor * variance, np.sqrt(np.maximum(kurtosis - 1.0, 0.0) / self.count))
