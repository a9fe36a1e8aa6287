"""Cells that are studied by the package's own `coverage_study`: designs, draws, rows, and the rules they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.studies import Rules
from dpinfer.studies.coverage import performance
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, mean_ratio

RULES = Rules()
DISCRETE_CAP = 1.25
KEPT = ("estimate", "error", "lower", "upper", "pvalue", "flagged", "failed", "truth", "oracle", "ordinary", "kappa",
        "spread")  # fmt: skip
BY = ("privacy", "term")
SHOWN = ("coverage", "coverage where determined", "not determined", "rejection", "width", "unbounded", "flagged",
         "failures",
         "empirical SE", "mean squared error")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One design: what is drawn, what is asked, what is true.

    Attributes
    ----------
    name, bounds : str
    generate : callable
    procedure : Procedure
    truth : mapping of str to float, or None
        None takes that of the study itself.
    schema : callable
        Maps the neighbours to the schema: declared constants for missing cells make n public under replace_one.
    n : int
    privacy : tuple of prices
        The same data serve all of them.
    neighbors : str
    discrete : bool
        Whether the width cap is that of discrete families.
    level : float
    contrasts : mapping
    extra : mapping
        Further columns of the table.
    """

    name: str
    bounds: str
    generate: Callable[[np.random.Generator, int], Mapping[str, np.ndarray]]
    procedure: Any
    truth: Mapping[str, float] | None
    schema: Callable[[str], dpi.Schema]
    n: int
    privacy: tuple[Any, ...]
    neighbors: str = "add_remove"
    discrete: bool = False
    level: float = 0.95
    contrasts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, Any]:
        """Columns that name the design."""
        named = {"design": self.name, "bounds": self.bounds, "neighbors": self.neighbors, "n": self.n}
        return {**named, **self.extra}


def draw(case: Case, rng: np.random.Generator, replicates: int) -> Drawn:
    """Return the columns `KEPT` of every price and term, (R, k) each: oracles and truths are those of the batch."""
    study = dpi.coverage_study(
        case.generate, case.procedure, schema=case.schema(case.neighbors), truth=case.truth, n=case.n,
        privacy=case.privacy, neighbors=case.neighbors, replicates=replicates, level=case.level,
        seed=int(rng.integers(2**31)), contrasts=case.contrasts, progress=False,
    )  # fmt: skip
    groups, found = dict(list(study.frame.groupby([*BY], sort=False))), {}
    for cell in study.cells.to_dict("records"):
        if not np.isfinite(cell["truth"]):
            continue
        rows = groups[cell["privacy"], cell["term"]].sort_values("replicate")
        ends = rows[["lower", "upper"]].to_numpy(dtype=float)
        failed = (rows["failure"] != "").to_numpy() | np.isnan(ends).any(axis=1)
        halves = [
            cell["width"] / cell[name] if cell.get(name) else np.nan for name in ("width / oracle", "width / ordinary")
        ]
        found[f"{cell['privacy']}|{cell['term']}"] = np.column_stack([
            rows[["estimate", "error", "lower", "upper", "pvalue", "flagged"]].to_numpy(dtype=float), failed,
            np.tile([cell["truth"], *halves, cell.get("kappa", np.nan),
                     cell.get("MCSE of width / oracle", np.nan) * np.sqrt(replicates)], (replicates, 1)),
        ])  # fmt: skip
    return found


def rows(case: Case, drawn: Drawn) -> list[dict]:
    """Return a row for each price and term, with the measures of `performance`."""
    found = []
    for key, values in drawn.items():
        one = dict(zip(KEPT, values.T, strict=True))
        truth = float(one["truth"].mean())
        row = performance(one, truth, level=case.level)
        width = np.where(one["failed"] > 0, np.nan, one["upper"] - one["lower"])
        against = {f"width / {name}": mean_ratio(width / one[name]) for name in ("oracle", "ordinary")}
        privacy, term = key.split("|")
        found.append({
            "privacy": privacy, "term": term, **{name: row.get(name, np.nan) for name in SHOWN},
            "truth": truth, "kappa": float(one["kappa"].mean()),
            **{name: float(ratio) for name, (ratio, _) in against.items()},
            "error of width": row["MCSE of width"],
            "error of width / oracle": float(np.sqrt(np.mean(one["spread"] ** 2) / len(values))),
            "determined": round((1 - row["not determined"]) * row["replicates"]),
            "cap": DISCRETE_CAP if case.discrete else RULES.width_cap,
            "nominal": case.level, "alpha": 1 - case.level, "unbounded cap": RULES.unbounded_cap,
        })  # fmt: skip
    return found


def clear(table: pd.DataFrame) -> pd.Series:
    """Rows in which noise does not dominate."""
    return table["kappa"] >= RULES.kappa


def rules(what: str) -> tuple[Rule, ...]:
    """Coverage, also among what is determined, and sizes; mean widths, and unbounded intervals, where it is clear."""
    return (
        Rule(f"least coverage of 95% intervals: {what}", "coverage", limit="nominal"),
        Rule("", "coverage where determined", limit="nominal", count="determined",
             where=lambda table: table["not determined"].between(0, 1, inclusive="neither")),
        Rule("", "rejection", "size", "alpha", where=lambda table: table["truth"] == 0),
        Rule("", "unbounded", "size", "unbounded cap", where=clear),
        Rule(f"largest mean width over the oracle's where kappa is at least 3: {what}", "width / oracle", "width",
             "cap", where=clear),
    )  # fmt: skip


FIGURE = scatter(
    lambda table: table["kappa"].where(np.isfinite(table["kappa"]), table["n"]).clip(lower=0.05),
    {"coverage": 0.95, "width / oracle": RULES.width_cap}, "design", label="signal over noise, kappa",
)  # fmt: skip
"""Coverage and width against kappa, or the number of rows where it is infinite."""


def study(name: str, cases: Callable[[], list[Case]], what: str, **options: Any) -> Study:
    """Return the study of cases by the rules that they share."""
    return Study(name, cases, draw, rows, rules(what), axes=lambda case: case.axes, by=BY,
                 **{"figure": FIGURE, **options})  # fmt: skip
