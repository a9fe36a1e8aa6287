"""The oracle of a study: an interval that knows the true sampling variance and the law of the noise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpinfer.statistics.inference import Oracle, Released
from dpinfer.studies.simulation import cells_at, draw_columns, group_sums, noiseless_estimates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.simulation import Design

__all__ = ["Spread", "StudyOracle", "chosen_spread", "spread_of_replicates", "spread_of_rows", "study_oracles"]

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

    @classmethod
    def of_moments(cls, count: int, moments: Array, factor: float) -> Spread:
        """Return the variance, times a factor, of so many deviations with sums of first, second and fourth powers."""
        if count == 0:
            return cls(*np.full((2, moments.shape[1]), np.nan))
        mean, second, fourth = moments / count
        variance = np.maximum(second - mean**2, 0.0)
        with np.errstate(all="ignore"):
            kurtosis = np.where(variance > 0, fourth / np.maximum(variance, 1e-300) ** 2, 1.0)
        return cls(factor * variance, np.sqrt(np.maximum(kurtosis - 1.0, 0.0) / count))


def _moments(away: Array) -> Array:
    """Return sums of first, second and fourth powers (3, q) of deviations (k, q) from about their mean."""
    return np.stack([away.sum(axis=0), (away**2).sum(axis=0), (away**4).sum(axis=0)])


def chosen_spread(rows: Spread | None, replicates: Spread) -> Spread:
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
    return Spread(np.where(own, replicates.variance, rows.variance), np.where(own, replicates.error, rows.error))


def spread_of_replicates(estimates: Array) -> Spread:
    """Spread of estimates without noise (R, q), those of the data sets of a study; failed ones are NaN."""
    done = estimates[np.isfinite(estimates).all(axis=1)]
    if len(done) < _FEWEST:
        return Spread(*np.full((2, estimates.shape[1]), np.nan))
    return Spread.of_moments(len(done), _moments(done - done.mean(axis=0)), len(done) / (len(done) - 1))


def spread_of_rows(design: Design, size: int, expected: Array) -> tuple[Spread, Array] | None:
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
    units = measured.rows.units
    each = n // max(1, n // _TOGETHER)
    try:
        center = noiseless_estimates(design, measured, expected[None])[0]
    except np.linalg.LinAlgError:  # what no row tells of
        return None
    if expected.size * center.size > _LARGEST:
        return None
    slope: Array | None = None
    count, moments = 0, np.zeros((3, center.size))
    for sums in _sums_of_groups(design, size, measured, each):
        away = sums - expected * (each / n)
        if slope is None:
            usual = np.sqrt(n) * units  # of sums that are the same in all data sets, as their number of rows
            spread = away.std(axis=0) * np.sqrt(n / each)
            slope = _slope(design, measured, expected, np.where(spread > 0, spread, usual))
        away = away @ slope
        count, moments = count + len(away), moments + _moments(away)
    return None if slope is None else (Spread.of_moments(count, moments, n / each), slope * units[:, None])


def _sums_of_groups(design: Design, size: int, measured: Measurement, each: int) -> Iterator[Array]:
    """Yield sums of whole numbers (k, m) of groups of ``each`` rows, until there are enough."""
    n, rows = design.n[size], measured.rows
    groups = max(1, n // _TOGETHER)
    wanted = int(np.clip(_TOGETHER * design.replicates, *_GROUPS))
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31, 1 + size)))
    found: list[Array] = []
    for left in reversed(range(-(-wanted // groups))):
        try:
            columns = draw_columns(design, rng, n)
        except Exception:  # counted where the study itself draws
            continue
        whole = {name: cells_at(columns[name], slice(groups * each)) for name in rows.columns}
        found.append(group_sums(rows, whole, groups, each))
        if not left or sum(map(len, found)) >= _AT_ONCE:
            yield rows.finish_sets(np.concatenate(found))
            found = []


def _slope(design: Design, measured: Measurement, expected: Array, spread: Array) -> Array:
    """Return the derivative of the estimates in the sums (m, q), by central differences."""
    steps, together, parts = _STEP * spread, max(1, 2**18 // expected.size), []
    for start in range(0, expected.size, together):
        places = np.arange(start, min(start + together, expected.size))
        moved = np.zeros((len(places), expected.size))
        moved[np.arange(len(places)), places] = steps[places]
        ends = noiseless_estimates(design, measured, np.concatenate([expected + moved, expected - moved]))
        parts.append((ends[: len(moved)] - ends[len(moved) :]) / (2 * steps[places, None]))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class StudyOracle:
    """Half widths of one number of rows and price, by name.

    Attributes
    ----------
    names : tuple of str, length q
    oracle : Oracle
    spread : Spread
        The sampling variances that it was made of.
    center : ndarray (q,)
        What is estimated in the population, right or wrong as the model may be: estimates without noise from the
        expected sums, or their mean where data sets were fitted one by one.
    """

    names: tuple[str, ...]
    oracle: Oracle
    spread: Spread
    center: Array

    def compared(self, row: Mapping[str, Any], term: str) -> dict[str, float]:
        """Return the mean width of a cell over the oracle's with its Monte Carlo error, over ordinary, and kappa."""
        place = self.names.index(term)
        half, ordinary = float(self.oracle.halfwidth[place]), float(self.oracle.ordinary[place])
        ratio = row["width"] / (2 * half) if half > 0 else np.nan
        # The half width moves with the variance of the sampling by half its share.
        own = 0.5 * (ordinary / half) ** 2 * float(self.spread.error[place]) if half > 0 else np.nan
        return {
            "width / oracle": ratio,
            "MCSE of width / oracle": float(ratio * np.hypot(row["MCSE of width"] / row["width"], own)),
            "width / ordinary": row["width"] / max(2 * ordinary, 1e-300),
            "kappa": self.oracle.kappa,
        }


def study_oracles(design: Design, size: int, blocks: Sequence[pa.Table]) -> list[StudyOracle]:
    """Return the oracle of every price.

    Of fits one by one the variance of the noise is the median of what they say of it. Of releases of sums the oracle is
    the procedure's own, or by the derivative of its estimates in the sums.

    Parameters
    ----------
    design : Design
    size : int
        Index into the numbers of rows.
    blocks : sequence of Table
        The replicates of that number of rows; of all that were asked for rows are drawn anew.
    """
    table = pa.concat_tables([block.replace_schema_metadata(None) for block in blocks])
    names = tuple(dict.fromkeys(table.column("term").to_pylist()))

    def by_term(price: int, column: str) -> Array:
        """Return a column at one price (R, q)."""
        frame = table.select(["price", "replicate", "term", column]).to_pandas()
        wide = frame[frame["price"] == price].pivot(index="replicate", columns="term", values=column)
        return np.asarray(wide[list(names)].to_numpy(dtype=np.float64))

    alpha, unknown = 1 - design.level, np.full(len(names), np.nan)
    known = by_term(0, "without noise")
    spread = spread_of_replicates(known)
    stored = [json.loads(block.schema.metadata[b"sums"]) for block in blocks]
    count = 0 if None in stored else sum(one["count"] for one in stored)
    if not count:
        done = known[np.isfinite(known).all(axis=1)]
        center = np.asarray(done.mean(axis=0)) if len(done) else unknown
        oracles = []
        for place in range(len(design.privacy)):
            errors, noise = by_term(place, "noise error"), unknown.copy()
            stated = np.isfinite(errors).any(axis=0)
            noise[stated] = np.nanmedian(errors[:, stated], axis=0) ** 2
            oracles.append(Oracle.of(noise, spread.variance, np.nan, alpha=alpha))
        return [StudyOracle(names, one, spread, center) for one in oracles]
    expected = np.asarray(np.sum([one["total"] for one in stored], axis=0) / count)
    first = design.measured(design.privacy[0], design.n[size])
    complete = len(blocks) == sum(task.size == size for task in design.tasks)
    by_rows = spread_of_rows(design, size, expected * first.rows.units) if complete else None
    spread = chosen_spread(None if by_rows is None else by_rows[0], spread)
    try:
        center = noiseless_estimates(design, first, (expected * first.rows.units)[None])[0]
    except np.linalg.LinAlgError:
        center = unknown
    oracles = []
    for price in design.privacy:
        released = Released.of_study(design.measured(price, design.n[size]), expected[None])
        if hasattr(design.procedure, "oracle"):
            contrasts = design.contrasts or None
            own = design.procedure.oracle(released, sampling=spread.variance, alpha=alpha, contrasts=contrasts)
            oracles.append(own)
        else:
            noise = unknown if by_rows is None else released.noise_variances @ by_rows[1] ** 2
            oracles.append(Oracle.of(noise, spread.variance, np.nan, alpha=alpha))
    return [StudyOracle(names, one, spread, center) for one in oracles]
