"""Coverage and width of intervals for means, totals, variances, covariances, correlations and proportions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from validation.common import simulated
from validation.common.real import RealRows
from validation.common.simulated import Case

PRICES = (dpi.ZCDP(0.02), dpi.ZCDP(0.5), dpi.PureDP(1.0))
TRUTH_ROWS = 4_000_000


@dataclass(frozen=True)
class People:
    """Incomes that are skewed (Gamma with shape 2, clamped at 100) and differ between three groups of unequal size.

    Ages are normal and use a third of their bounds; scores depend on age; weights are uniform; 8% are members.
    """

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        group = np.searchsorted([0.6, 0.9], rng.random(n))
        age = 50.0 + 12.0 * rng.normal(size=n)
        return {
            "income": rng.gamma(2.0, 10.0, n) * (1 + 0.3 * group),
            "age": age,
            "score": 40.0 + 0.5 * (age - 50.0) + 10.0 * rng.normal(size=n),
            "weight": rng.uniform(0.5, 3.0, n),
            "group": np.array(["a", "b", "c"])[group],
            "member": rng.random(n) < 0.08,
        }

    def schema(self, neighbors: str) -> dpi.Schema:
        """Bounds; under replace_one missing cells have declared constants, so that n is public."""
        public = neighbors == "replace_one"

        def policy(value: object) -> dict[str, object]:
            return {"missing": value, "impossible": value} if public else {}

        return dpi.Schema(
            income=dpi.Real(0, 100, **policy(0.0)),
            age=dpi.Real(0, 100, **policy(0.0)),
            score=dpi.Real(0, 80, **policy(0.0)),
            weight=dpi.Real(0, 3, **policy(0.0)),
            group=dpi.Category(["a", "b", "c"], **policy("a")),
            member=dpi.Boolean(**policy(False)),
        )


def truths() -> dict[str, dict[str, float]]:
    """True values of the clamped population, from four million rows with a seed of their own."""
    rows = People()(np.random.default_rng(20261121), TRUTH_ROWS)
    income, age, score = np.clip(rows["income"], 0, 100), np.clip(rows["age"], 0, 100), np.clip(rows["score"], 0, 80)
    groups = {label: rows["group"] == label for label in "abc"}
    return {
        "mean": {f"income[group={g}]": float(income[mine].mean()) for g, mine in groups.items()},
        "weighted": {"income": float(income.mean())},
        "two means": {"age": float(age.mean()), "score": float(score.mean())},
        "variance": {"age": float(age.var())},
        "group variance": {f"income[group={g}]": float(income[mine].var()) for g, mine in groups.items()},
        "cov": {
            "cov(age, age)": float(age.var()),
            "cov(age, score)": float(np.cov(age, score)[0, 1]),
            "cov(score, score)": float(score.var()),
        },
        "corr": {"corr(age, score)": float(np.corrcoef(age, score)[0, 1])},
        "proportion": {"member": 0.08},
        "group proportion": {f"member[group={g}]": 0.08 for g in "abc"},
        "levels": {"group=a": 0.6, "group=b": 0.3, "group=c": 0.1},
    }


REAL: tuple[tuple[str, int, Any], ...] = (
    ("fair: affairs", 2_000, dpi.mean("affairs")),
    ("randhie: mdvis", 1_000, dpi.mean("mdvis")),
    ("bwght: cigs", 1_000, dpi.mean("cigs")),
    ("apple: ecolbs", 2_000, dpi.mean("ecolbs")),
    ("injury: durat", 2_000, dpi.mean("durat")),
    ("pension: wealth89", 1_000, dpi.mean("wealth89")),
    ("wage1: wage, female", 1_000, dpi.mean("wage", by="female")),
    ("beauty: looks", 500, dpi.proportion("looks")),
    ("injury: hosp, indust", 1_000, dpi.proportion("hosp", by="indust")),
    ("smoke: restaurn", 200, dpi.proportion("restaurn")),
    ("anes96: TVnews, age", 2_000, dpi.cov(["TVnews", "age"])),
    ("econmath: hsgpa, score", 2_000, dpi.corr(["hsgpa", "score"])),
)
"""Questions about real columns, and rows at which the ordinary interval covers: 25 squared skewnesses or more."""


def real_cases() -> list[Case]:
    """Questions about real columns at two sizes, relations in turns."""
    found = []
    for place, (name, n, asked) in enumerate(REAL):
        rows = RealRows.of(name)
        column, by = (*rows.columns, "")[:2]
        if "corr" in asked.kind or "cov" in asked.kind:
            truth = {term: one for term, one in rows.products().items() if term.startswith(asked.kind)}
        else:
            truth = rows.shares(column) if column == "looks" else rows.means(column, by)
        found += [
            Case(f"{asked.kind} of {name}", "codebook", rows, asked, truth, rows.schema, many, PRICES, relation,
                 asked.kind == "proportion")
            for many, relation in zip((n, 10 * n), NEIGHBORS if place % 2 else NEIGHBORS[::-1], strict=True)
        ]  # fmt: skip
    return found


def cases() -> list[Case]:
    """Every kind, on sizes from which its docs say that it serves, and real columns."""
    people, true = People(), truths()
    asked = {
        "mean": (dpi.mean("income", by="group"), (500, 2000, 10000)),
        "weighted": (dpi.mean("income", weights="weight"), (100, 1000, 10000)),
        "two means": (dpi.mean(["age", "score"]), (100, 1000, 10000)),
        "variance": (dpi.variance("age"), (500, 2000, 10000)),
        "group variance": (dpi.variance("income", by="group"), (2000, 10000)),
        "cov": (dpi.cov(["age", "score"]), (2000, 10000)),
        "corr": (dpi.corr(["age", "score"]), (2000, 10000, 50000)),
        "proportion": (dpi.proportion("member"), (100, 1000, 10000)),
        "group proportion": (dpi.proportion("member", by="group"), (500, 2000, 10000)),
        "levels": (dpi.proportion("group"), (100, 1000, 10000)),
    }
    return [
        Case(name, "as declared", people, procedure, true[name], people.schema, n, PRICES, neighbors,
             "proportion" in name or name == "levels")
        for name, (procedure, sizes) in asked.items() for neighbors in NEIGHBORS for n in sizes
    ] + real_cases()  # fmt: skip


STUDY = simulated.study("descriptions_coverage", cases, "descriptions", notes=(
    "The truth is that of clamped values, from four million rows: its error is below a tenth of any interval. Rows of "
    "real data sets are drawn with replacement, and the truth is the value on all of them.",
))  # fmt: skip
