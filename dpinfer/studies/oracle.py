"""The oracle of a study: an interval that knows the true sampling variance and the law of the noise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpinfer.inference.batch import Oracle
from dpinfer.inference.released import Released
from dpinfer.studies.spread import Spread, choose, of_replicates, of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.numerics.arrays import Array
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
    """

    names: tuple[str, ...]
    oracle: Oracle
    spread: Spread

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


def study_oracles(design: Design, size: int, blocks: Sequence[pa.Table], *, complete: bool) -> list[StudyOracle]:
    """Return the oracle of every price.

    Parameters
    ----------
    design : Design
    size : int
        Index into the numbers of rows.
    blocks : sequence of Table
        The replicates of that number of rows.
    complete : bool
        Whether the study was not interrupted: rows are drawn anew for those that were not alone.
    """
    table = pa.concat_tables([block.replace_schema_metadata(None) for block in blocks])
    names = tuple(dict.fromkeys(blocks[0].column("term").to_pylist()))
    place, known = _column(table, "price"), _column(table, "without noise")
    own = of_replicates(known[place == 0].reshape(-1, len(names)))
    expected = _expected(blocks) if hasattr(design.procedure, "oracle") else None
    if expected is None:
        noise = _column(table, "noise error")
        return [_of_fits(design, names, own, noise[place == one].reshape(-1, len(names)))
                for one in range(len(design.privacy))]  # fmt: skip
    first = design.measured(design.privacy[0], design.n[size])
    spread = choose(of_rows(design, size, expected * first.rows.units) if complete else None, own)
    found = []
    for price in design.privacy:
        released = Released.of_study(design.measured(price, design.n[size]), expected[None])
        oracle = design.procedure.oracle(
            released, sampling=spread.variance, alpha=1 - design.level, contrasts=design.contrasts or None
        )
        found.append(StudyOracle(names, oracle, spread))
    return found


def _of_fits(design: Design, names: tuple[str, ...], spread: Spread, noise: Array) -> StudyOracle:
    """Oracle of fits one by one: the variance of the noise is the median of what they say of it."""
    usual = np.full(len(names), np.nan)
    told = np.isfinite(noise).any(axis=0)
    usual[told] = np.nanmedian(noise[:, told], axis=0) ** 2
    return StudyOracle(names, Oracle.of(usual, spread.variance, np.nan, alpha=1 - design.level), spread)


def _column(table: pa.Table, name: str) -> Array:
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _expected(blocks: Sequence[pa.Table]) -> Array | None:
    """Mean of the sums of all data sets, without noise; None where they were fitted one by one."""
    stored = [json.loads(block.schema.metadata[b"sums"]) for block in blocks]
    if None in stored or sum(one["count"] for one in stored) == 0:
        return None
    return np.asarray(np.sum([one["total"] for one in stored], axis=0) / sum(one["count"] for one in stored))
