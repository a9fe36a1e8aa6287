"""The replicates of a coverage study, and the measures of every cell."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from dpinfer.inference.released import Released
from dpinfer.studies.measures import Replicates, performance

if TYPE_CHECKING:
    from dpinfer.inference.batch import Oracle
    from dpinfer.studies.design import Design, Task

__all__ = ["StudyFrames"]


class StudyFrames:
    """Replicates and measures of a coverage study, as tables.

    Attributes
    ----------
    design : Design
    complete : bool
        Whether every block was run.
    """

    def __init__(self, design: Design, blocks: list[tuple[Task, pa.Table]]) -> None:
        self.design = design
        self.complete = len(blocks) == len(design.tasks)
        self._blocks = blocks

    @cached_property
    def table(self) -> pa.Table:
        """All replicates as an Arrow table."""
        return pa.concat_tables([block.replace_schema_metadata(None) for _, block in self._blocks])

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per replicate, price and coefficient."""
        frame: pd.DataFrame = self.table.to_pandas()
        frame.insert(0, "n", np.array(self.design.n)[frame.pop("size").to_numpy()])
        prices = np.array([str(price) for price in self.design.privacy], dtype=object)
        frame.insert(1, "privacy", prices[frame.pop("price").to_numpy()])
        return frame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row per cell (n, price, coefficient) with every measure and its Monte Carlo standard error."""
        rows = []
        for key, group in self.frame.groupby(["n", "privacy", "term"], sort=False):
            n, privacy, term = cast("tuple[int, str, str]", key)
            truth = float(self.design.truth.get(term, np.nan))
            values = _replicates(group)
            row = {"n": n, "privacy": privacy, "term": term, "truth": truth}
            row |= performance(values, truth, level=self.design.level)
            row |= self._beside(group, row, n, privacy, term)
            rows.append(row)
        return pd.DataFrame(rows)

    def _beside(self, group: pd.DataFrame, row: dict[str, Any], n: int, privacy: str, term: str) -> dict[str, float]:
        """Widths against the oracle and the baseline."""
        out: dict[str, float] = {}
        oracle = self._oracles.get((n, privacy))
        if oracle is not None:
            names, found = oracle
            place = names.index(term)
            out |= {
                "width / oracle": row["width"] / (2 * float(found.halfwidth[place])),
                "width / ordinary": row["width"] / max(2 * float(found.ordinary[place]), 1e-300),
                "kappa": found.kappa,
            }
        if "baseline lower" in group:
            lower, upper = group["baseline lower"], group["baseline upper"]
            truth = row["truth"]
            out |= {
                "width / baseline": row["width"] / float((upper - lower).mean()),
                "baseline coverage": float(((lower <= truth) & (truth <= upper)).mean()),
                "baseline empirical SE": float(group["baseline estimate"].std()),
            }
        return out

    @cached_property
    def _oracles(self) -> dict[tuple[int, str], tuple[list[str], Oracle]]:
        found: dict[tuple[int, str], tuple[list[str], Oracle]] = {}
        design = self.design
        if not hasattr(design.procedure, "oracle"):
            return found
        for size, n in enumerate(design.n):
            blocks = [block for task, block in self._blocks if task.size == size]
            stored = [json.loads(block.schema.metadata[b"sums"]) for block in blocks]
            if not stored or None in stored or sum(one["count"] for one in stored) == 0:
                continue
            total = np.sum([one["total"] for one in stored], axis=0) / sum(one["count"] for one in stored)
            names = list(dict.fromkeys(blocks[0].column("term").to_pylist()))
            for price in design.privacy:
                released = Released.of_study(design.measured(price, n), total[None])
                contrasts = design.contrasts or None
                oracle = design.procedure.oracle(released, alpha=1 - design.level, contrasts=contrasts)
                found[n, str(price)] = (names, oracle)
        return found


def _replicates(group: pd.DataFrame) -> Replicates:
    numbers = {
        name: group[name].to_numpy(dtype=np.float64) for name in ("estimate", "error", "lower", "upper", "pvalue")
    }
    failed = (group["failure"] != "").to_numpy() | ~np.isfinite(numbers["estimate"])
    return Replicates(**numbers, flagged=group["flagged"].to_numpy(dtype=bool), failed=failed)
