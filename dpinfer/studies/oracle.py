"""The oracle of a study: an interval that knows the true sampling variance and the law of the noise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpinfer.inference.batch import Oracle
from dpinfer.inference.released import Released
from dpinfer.studies.engine import quiet_estimates
from dpinfer.studies.spread import Spread, choose, of_replicates, of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.design import Design

__all__ = ["StudyOracle", "study_oracles"]


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

    def beside(self, row: Mapping[str, Any], term: str) -> dict[str, float]:
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
    known = _by_term(table, 0, "without noise", names)
    own = of_replicates(known)
    expected = _expected(blocks)
    if expected is None:
        parts = [_by_term(table, price, "noise error", names) for price in range(len(design.privacy))]
        return [StudyOracle(names, _of_fits(design, own, part), own, _mean(known)) for part in parts]
    first = design.measured(design.privacy[0], design.n[size])
    complete = len(blocks) == sum(task.size == size for task in design.tasks)
    by_rows = of_rows(design, size, expected * first.rows.units) if complete else None
    spread = choose(None if by_rows is None else by_rows[0], own)
    many = [Released.of_study(design.measured(price, design.n[size]), expected[None]) for price in design.privacy]
    try:
        center = quiet_estimates(design, first, (expected * first.rows.units)[None])[0]
    except np.linalg.LinAlgError:
        center = np.full(len(names), np.nan)
    return [StudyOracle(names, _of_sums(design, one, spread, by_rows), spread, center) for one in many]


def _of_sums(design: Design, released: Released, spread: Spread, by_rows: tuple[Spread, Array] | None) -> Oracle:
    """Oracle of releases of sums: the procedure's own, or by the derivative of its estimates in the sums."""
    alpha = 1 - design.level
    if hasattr(design.procedure, "oracle"):
        contrasts = design.contrasts or None
        found: Oracle = design.procedure.oracle(released, sampling=spread.variance, alpha=alpha, contrasts=contrasts)
        return found
    noise = np.full(len(spread.variance), np.nan) if by_rows is None else released.noise_variances @ by_rows[1] ** 2
    return Oracle.of(noise, spread.variance, np.nan, alpha=alpha)


def _of_fits(design: Design, spread: Spread, noise: Array) -> Oracle:
    """Oracle of fits one by one: the variance of the noise is the median of what they say of it (R, q)."""
    usual = np.full(noise.shape[1], np.nan)
    told = np.isfinite(noise).any(axis=0)
    usual[told] = np.nanmedian(noise[:, told], axis=0) ** 2
    return Oracle.of(usual, spread.variance, np.nan, alpha=1 - design.level)


def _mean(estimates: Array) -> Array:
    """Mean of the estimates that there are (R, q)."""
    done = estimates[np.isfinite(estimates).all(axis=1)]
    return np.asarray(done.mean(axis=0)) if len(done) else np.full(estimates.shape[1], np.nan)


def _by_term(table: pa.Table, price: int, column: str, names: tuple[str, ...]) -> Array:
    """Return a column at one price (R, q)."""
    frame = table.select(["price", "replicate", "term", column]).to_pandas()
    wide = frame[frame["price"] == price].pivot(index="replicate", columns="term", values=column)
    return np.asarray(wide[list(names)].to_numpy(dtype=np.float64))


def _expected(blocks: Sequence[pa.Table]) -> Array | None:
    """Mean of the sums of all data sets, without noise; None where they were fitted one by one."""
    stored = [json.loads(block.schema.metadata[b"sums"]) for block in blocks]
    if None in stored or sum(one["count"] for one in stored) == 0:
        return None
    return np.asarray(np.sum([one["total"] for one in stored], axis=0) / sum(one["count"] for one in stored))
