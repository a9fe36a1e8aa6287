"""Coverage and width of the other terms of a regression on a factor with a near-empty level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import dpinfer as dpi
from dpinfer.studies.populations import truncated_normal
from validation.common import simulated
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.simulated import Case
from validation.common.study import Drawn, Study

N, SIGMA, SLOPE = 5000, 0.2, 0.2
LEVELS = tuple(range(1, 9))
MEANS = np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.1, -0.1])
FORMULA = "y ~ x + C(g)"
ROWS = (0, 1, 5, 20, 50, 100)
CAPS = {0: 1.6, 1: 1.6, 5: 1.6, 20: 1.4, 100: 1.05}
PRICES = (0.05, 0.1, 0.5)
TRUTH = {
    "Intercept": 0.0,
    "x": SLOPE,
    **{f"C(g)[T.{level}]": mean for level, mean in zip(LEVELS[1:-1], MEANS[1:], strict=True)},
}
WIDEST = 1.0
"""The response is declared from minus this to this."""


@dataclass(frozen=True)
class Rows:
    """Seven common levels of a factor, and an eighth with few rows.

    Attributes
    ----------
    few : int
        Rows of the eighth level.
    extreme : bool
        Whether its mean is near the end of the declared range of the response, or 0.
    declared : bool
        Whether it is a level of the factor; otherwise its rows are of the other levels.
    """

    few: int
    extreme: bool
    declared: bool = True

    @property
    def schema(self) -> dpi.Schema:
        levels = LEVELS if self.declared else LEVELS[:-1]
        return dpi.Schema(x=dpi.Real(-1, 1), g=dpi.Category(levels), y=dpi.Real(-WIDEST, WIDEST))

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows; errors in an extreme level are small, so that no bound clips."""
        g = rng.integers(0, len(MEANS), n)
        x, error = rng.uniform(-1.0, 1.0, n), SIGMA * truncated_normal(rng, n)
        mean, spread = MEANS[g], np.ones(n)
        if self.declared and self.few:
            chosen = np.arange(n) < self.few
            g = np.where(chosen, len(MEANS), g)
            mean = np.where(chosen, 0.75 if self.extreme else 0.0, mean)
            spread = np.where(chosen & self.extreme, 0.1, spread)
        return {"x": x, "g": g + 1, "y": mean + SLOPE * x + spread * error}


def case(rows: Rows, price: float) -> Case:
    """Return the regression on rows at a price."""
    return Case("", "", rows, dpi.ols(FORMULA, method="gram"), TRUTH, lambda _: rows.schema, N, (dpi.ZCDP(price),),
                extra={"rows of the level": rows.few, "its mean": "extreme" if rows.extreme else "middle",
                       "rho": price})  # fmt: skip


def cases() -> list[Case]:
    """Every number of rows, at both means and all prices."""
    return [case(Rows(*one), price) for price, one in product(PRICES, product(ROWS, (False, True)))]


def draw(one: Case, rng: np.random.Generator, replicates: int) -> Drawn:
    """Draw the regression, and the same one without the level."""
    without = simulated.draw(case(Rows(0, extreme=False, declared=False), one.extra["rho"]), rng, replicates)
    return {**simulated.draw(one, rng, replicates), **{f"without|{key}": found for key, found in without.items()}}


def summary(one: Case, drawn: Drawn) -> dict:
    """Compare the other terms with those without the level."""
    plain = {key.removeprefix("without|"): found for key, found in drawn.items() if key.startswith("without|")}
    known = {row["term"]: row for row in simulated.rows(one, plain)}
    every = {row["term"]: row for row in simulated.rows(one, {key: drawn[key] for key in drawn if key not in
                                                              {f"without|{name}" for name in plain}})}  # fmt: skip
    found = [every[term] for term in TRUTH]
    ratios = [row["width"] / known[row["term"]]["width"] for row in found]
    place = int(np.argmax(ratios))
    apart = [one["error of width"] / one["width"] for one in (found[place], known[found[place]["term"]])]
    return {
        "coverage": min(row["coverage"] for row in found), "mean coverage": np.mean([row["coverage"] for row in found]),
        "without the level": min(row["coverage"] for row in known.values()), "width / without": ratios[place],
        "error of width / without": ratios[place] * np.hypot(*apart),
        "unbounded": max(row["unbounded"] for row in found),
        "cap": np.nan if one.generate.extreme else CAPS.get(one.generate.few, np.nan),
    }  # fmt: skip


STUDY = Study(
    "rare_levels", cases, draw, summary,
    (
        Rule("least coverage of 95% intervals of the terms beside a near-empty level", "coverage",
             quantities=len(TRUTH),
             design=f"a level of {ROWS[0]}-{ROWS[-1]} rows of {N:,}, rho {PRICES[0]:g}-{PRICES[-1]:g}"),
        Rule("", "unbounded", "value", 1e-9),
        Rule("largest mean width beside a near-empty level over that without the level", "width / without", "width",
             "cap",
             where=lambda table: table["cap"].notna()),
    ),
    axes=lambda one: dict(one.extra),
    figure=scatter("rows of the level", {"coverage": 0.95, "width / without": np.nan}, ["rho", "its mean"], log=False),
    notes=(
        "All intervals of the other terms are bounded; mean width over that of the same regression without the level "
        "at most "
        + ", ".join(f"{cap:g} ({rows} rows)" for rows, cap in CAPS.items())
        + ". The level has seven others beside it; its own interval is left out. An extreme level has its mean near "
        "the end of the declared range: what it adds to the width is reported, and has no cap, for its coefficient "
        "multiplies the noise whether it is near-empty or not.",
    ),
)  # fmt: skip
