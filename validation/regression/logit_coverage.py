"""Error, coverage and sizes of tests of private binary regressions by noisy Newton rounds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.models import BINARY
from dpinfer.regression.question import Newton
from validation.common.cells import measured
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_table
from validation.regression.newton_draws import Drawer

CELL = ["kind", "n", "p", "rho", "share", "link"]
SLOPES = (0.8, -0.5, 0.6)
SIZES, WIDTHS, PRICES, SHARES = (500, 2000, 10_000, 100_000), (2, 5, 10), (0.01, 0.05, 0.5), (0.45, 0.05)
LEAST, FLAGGED = 0.93, 0.05
"""Coverage of intercepts and of flagged fits that is asked for, and the share of these in a cell that is flagged."""

WORSE, BETA_COVERAGE, BETA_WIDTH, WIDTHS_VARY = 1.05, 0.885, 0.53, 0.06
FAR = float(stats.norm.isf(RULES.alarm))
"""Standard deviations of chance that an error or a width may be above what is asked for."""

FAMILY = "logit"

TARGETS = {
    0.45: {
        500: {(5, 0.01): 8.3, (5, 0.05): 2.9, (5, 0.5): 1.09, (2, 0.05): 1.27, (10, 0.05): 5.9},
        2000: {(5, 0.01): 2.0, (5, 0.05): 1.19, (5, 0.5): 1.02, (2, 0.05): 1.07, (10, 0.05): 1.6},
        10_000: {(5, 0.01): 1.13, (5, 0.05): 1.03, (5, 0.5): 1.01, (2, 0.05): 1.03, (10, 0.05): 1.06},
    },
    0.05: {
        2000: {(5, 0.01): 8.5, (5, 0.05): 5.0, (5, 0.5): 1.14, (2, 0.05): 1.8, (10, 0.05): 5.9},
        10_000: {(5, 0.01): 2.6, (5, 0.05): 1.16, (5, 0.5): 1.03, (2, 0.05): 1.16, (10, 0.05): 1.6},
    },
}
"""RMSE over that of maximum likelihood that a simulation of the method before it was built had."""


@dataclass(frozen=True)
class Cell:
    """One way to draw data, and how it is asked of."""

    kind: str
    n: int
    p: int
    rho: float
    share: float
    link: str = "logit"

    @property
    def level(self) -> float:
        """Level of the intervals."""
        return 0.9 if self.kind == "beta" else 0.95

    @property
    def target(self) -> float:
        """Error over that of maximum likelihood that is asked for."""
        asked = TARGETS.get(self.share, {}) if (self.kind, self.link) == ("grid", "logit") else {}
        return asked.get(self.n, {}).get((self.p, self.rho), np.nan)

    @property
    def names(self) -> list[str]:
        """Names of the regressors."""
        return [f"x{place + 1}" for place in range(self.p)]

    def drawer(self) -> Drawer:
        """Return the question at its price; a Gaussian unit mu costs mu^2/2."""
        high = 30.0 if self.kind == "far out" else 1.0
        columns = {name: dpi.Real(-1, high if name == "x1" else 1) for name in self.names}
        question = Newton(formula=f"y ~ {' + '.join(self.names)}", model=self.link)
        return Drawer(question, Context(dpi.Schema(**columns, y=dpi.Boolean()), "add_remove", dpi.ZCDP(self.rho)))

    def regressors(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw regressors with the constant (n, p + 1): normal, two points and skewed, in turns."""
        laws = (
            lambda: np.clip(rng.normal(0, 0.35, n), -1, 1),
            lambda: np.where(rng.random(n) < 0.4, 1.0, -1.0),
            lambda: 2 * rng.beta(2, 5, n) - 1,
        )
        drawn = [laws[place % 3]() for place in range(self.p)]
        if self.kind == "beta":
            drawn = [rng.uniform(-1, 1, n)]
        if self.kind == "far out":
            drawn[0] = np.minimum(rng.exponential(1.0, n), 30.0)
        return np.column_stack([np.ones(n), *drawn])

    def predictor(self, x: np.ndarray, constant: float) -> np.ndarray:
        """Linear predictor, of the true model."""
        if self.kind == "beta":
            return 0.5 + 2 * x[:, 1]
        slopes = np.tile(SLOPES, 4)[: self.p]
        bent = {"quadratic": 4.0 * x[:, 1] ** 2, "far out": -0.15 * x[:, 1] ** 2}.get(self.kind, 0.0)
        return constant + x[:, 1:] @ slopes + bent

    def rows(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw one data set."""
        x = self.regressors(rng, self.n)
        mean = BINARY[self.link].mean(self.predictor(x, constant_of(self)))
        return x, rng.random(self.n) < mean


@cache
def _population(kind: str, p: int) -> np.ndarray:
    return Cell(kind, 0, p, 0.0, 0.0).regressors(np.random.default_rng(9), 1_000_000)


@cache
def constant_of(cell: Cell) -> float:
    """Intercept that gives the share of ones."""
    x, low, high = _population(cell.kind, cell.p)[:200_000], -20.0, 20.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = BINARY[cell.link].mean(cell.predictor(x, middle)).mean() < cell.share
        low, high = (middle, high) if below else (low, middle)
    return 0.5 * (low + high)


@cache
def truth_of(cell: Cell) -> np.ndarray:
    """Coefficients (p + 1,): those of the model, or where the mean of (y - mean) x is zero in the population."""
    if cell.kind == "beta":
        return np.array([0.5, 2.0])
    start = np.concatenate([[constant_of(cell)], np.tile(SLOPES, 4)[: cell.p]])
    if cell.kind == "grid":
        return start
    x = _population(cell.kind, cell.p)
    return likeliest(cell.link, x, BINARY[cell.link].mean(cell.predictor(x, start[0])), start, 60)


def likeliest(link: str, x: np.ndarray, y: np.ndarray, start: np.ndarray, steps: int = 25) -> np.ndarray:
    """Maximum likelihood by Fisher scoring; where it does not exist, a point far out."""
    response, theta = BINARY[link], start
    for _ in range(steps):
        mean = np.clip(response.mean(x @ theta), 1e-12, 1 - 1e-12)
        slope = np.maximum(response.slope(x @ theta), 1e-12)
        weights = slope / (mean * (1 - mean))
        hessian = (x * (slope * weights)[:, None]).T @ x
        move = np.linalg.solve(hessian + 1e-9 * np.eye(len(theta)), x.T @ (weights * (y - mean)))
        longest = float(np.abs(move).max())
        theta = theta + move * min(1.0, 2.0 / max(longest, 1e-300))
        if longest < 1e-4:  # what is left is its square
            break
    return theta


def cells() -> list[Cell]:
    """The grid, other links, a published design, and two wrong models."""
    main = [Cell("grid", n, p, rho, share) for share, n, p, rho in product(SHARES, SIZES, WIDTHS, PRICES)]
    others = [
        Cell("grid", *one, link)
        for link in ("probit", "cloglog")
        for one in ((2000, 2, 0.5, 0.45), (10_000, 5, 0.05, 0.45), (10_000, 5, 0.5, 0.05))
    ]
    wrong = [Cell(kind, n, 3, rho, 0.4) for kind in ("quadratic", "far out") for n, rho in ((2000, 0.5), (10_000, 0.1))]
    return [*main, *others, Cell("beta", 1000, 1, 0.125, 0.5), *wrong]


def measure(cell: Cell, place: int, replicates: int, seed: int) -> dict:
    """Draw, fit, and compare with maximum likelihood."""
    rng, drawer, truth = np.random.default_rng([seed, place]), cell.drawer(), truth_of(cell)
    every = np.eye(len(truth))
    found: dict[str, list] = {name: [] for name in ("ends", "ours", "theirs", "flagged", "wald", "score", "joint")}
    for _ in range(replicates):
        x, y = cell.rows(rng)
        fit = drawer.estimate({**dict(zip(cell.names, x.T[1:], strict=True)), "y": y}, rng)
        found["ends"].append(fit.intervals(every, 1 - cell.level))
        found["ours"].append(fit.params - truth)
        found["theirs"].append(likeliest(cell.link, x, y, truth) - truth)
        found["flagged"].append(fit.fit.flagged)
        by_wald, by_score = fit.method == "wald", fit.with_method("score")
        found["wald"].append(fit.contrast_pvalues(every, truth) if by_wald else truth * np.nan)
        found["score"].append(truth * np.nan if fit.fit.flagged else by_score.contrast_pvalues(every, truth))
        found["joint"].append(fit.wald(every[1:], truth[1:])[2])
    return {**asdict(cell), **summary(cell, truth, {name: np.array(one) for name, one in found.items()})}


def summary(cell: Cell, truth: np.ndarray, found: dict[str, np.ndarray]) -> dict:
    """Measures of one cell."""
    low, high = found["ends"][..., 0], found["ends"][..., 1]
    covered, flagged = (low <= truth) & (truth <= high), found["flagged"]
    clear, alpha = ~flagged, 1 - cell.level

    def least(which: np.ndarray, terms: slice) -> float:
        return float(covered[which, terms].mean(axis=0).min()) if which.any() else np.nan

    def size(pvalues: np.ndarray) -> float:
        kept = np.isfinite(pvalues) & clear.reshape(-1, *[1] * (pvalues.ndim - 1))
        return float(((pvalues < alpha) & kept).sum(axis=0).max() / max(kept.sum(axis=0).max(), 1))

    ours, theirs = found["ours"], found["theirs"]
    ratios = np.sqrt((ours**2).mean(axis=0) / (theirs**2).mean(axis=0))[1:]
    middle = (np.median(np.abs(ours), axis=0) / np.median(np.abs(theirs), axis=0))[1:]
    bounded = np.isfinite(high - low)
    return {
        "RMSE / likelihood": float(ratios.mean()),
        "median / likelihood": float(middle.mean()),
        "target": cell.target,
        "slope": least(clear, slice(1, None)),
        "intercept": least(clear, slice(0, 1)),
        "flagged slope": least(flagged, slice(1, None)),
        "flagged intercept": least(flagged, slice(0, 1)),
        "flagged": float(flagged.mean()),
        "not determined": float(1 - bounded.mean()),
        "width": float(np.mean((high - low)[bounded[:, 1], 1])) if bounded[:, 1].any() else np.inf,
        "Wald size": size(found["wald"]),
        "score size": size(found["score"]),
        "joint size": size(found["joint"]),
        "by Wald": float(np.isfinite(found["wald"][:, 0]).mean()),
        "replicates": len(flagged),
    }


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Add what each cell breaks; fits are judged apart by whether they are flagged, at as many as there are."""
    return table.assign(fails=[broken(row) for row in table.to_dict("records")])


def broken(row: dict) -> str:
    """Return what a cell breaks."""
    level, replicates = 0.9 if row["kind"] == "beta" else 0.95, row["replicates"]
    clear, flagged, by_wald = (
        max(round(share * replicates), 1) for share in (1 - row["flagged"], row["flagged"], row["by Wald"])
    )
    least, marked = RULES.least_coverage(clear, level), min(LEAST, RULES.least_coverage(flagged, level))
    nulls = sum(one.p + 1 for one in cells())
    most, most_by_wald = (RULES.largest_size(count, level, nulls) for count in (clear, by_wald))
    error = row["median / likelihood" if row["flagged"] > FLAGGED else "RMSE / likelihood"]
    chance = FAR * np.sqrt((1 - row["target"] ** -2) / (row["p"] * replicates))
    checks = {
        "slopes": row["slope"] < least,
        "intercept": row["intercept"] < min(LEAST, least),
        "flagged slopes": row["flagged slope"] < marked,
        "flagged intercept": row["flagged intercept"] < marked,
        "error": error > WORSE * row["target"] * (1 + chance),
        "size of Wald tests": row["Wald size"] > most_by_wald,
        "size of score tests": row["score size"] > most,
        "size of joint tests": row["joint size"] > most,
    }
    if row["kind"] == "beta":
        checks |= {
            "slopes": row["slope"] < min(BETA_COVERAGE, least),
            "width": row["width"] > BETA_WIDTH * (1 + FAR * WIDTHS_VARY / np.sqrt(replicates)),
        }
    return ", ".join(name for name, fails in checks.items() if fails)


def figure_of(table: pd.DataFrame, replicates: int) -> Figure:
    """Error and coverage against n times rho, for each number of slopes and share of ones."""
    figure, (left, right) = new_figure(10, 4.2, 1, 2)
    grid = table[(table["kind"] == "grid") & (table["link"] == FAMILY)]
    for place, ((share, p), group) in enumerate(grid.groupby(["share", "p"])):
        label, marker = f"{share:.0%} ones, {p} slopes", "os^Dvx"[place]
        information = group["n"] * group["rho"]
        left.plot(information, group["median / likelihood"], marker, ms=4, alpha=0.75, label=label)
        right.plot(information, group["slope"], marker, ms=4, alpha=0.75)
    least = RULES.least_coverage(replicates, 0.95)
    left.axhline(1.0, color="black", lw=0.8)
    left.set(xscale="log", yscale="log", xlabel="n rho", ylabel="median error / likelihood's", title="Error of slopes")
    right.axhline(least, color="firebrick", lw=0.8, ls="--")
    right.set(xscale="log", xlabel="n rho", ylabel="coverage of 95% intervals", title="Worst slope, unflagged fits")
    left.legend(fontsize=7, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    table = judged(measured("logit_coverage", cells(), measure, arguments))
    table["held"] = table["fails"] == ""
    table["covers"] = ["slopes" not in fails.split(", ") for fails in table["fails"]]
    failed = ~table["held"]
    notes = [
        f"Cells: {len(table)}; failed: {int(failed.sum())}.",
        "Errors of slopes are over those of maximum likelihood, as RMSE and by medians; coverage is that of the worst "
        "slope and of the intercept, of fits that are flagged and of those that are not.",
        f"Rules: slopes of unflagged fits cover at least {RULES.least_coverage(arguments.replicates, 0.95):.4f} (of "
        f"fewer fits, less by the same rule), intercepts and flagged fits {LEAST:g}, less what chance takes; "
        f"errors are at most {WORSE:g} times the target, by medians where more than {FLAGGED:.0%} are flagged.",
    ]
    write_table(table, "logit_coverage", arguments, notes, figure_of(table, arguments.replicates))
    error = f"{np.sqrt(0.95 * 0.05 / arguments.replicates):.4f}"
    main, beta = table[table["kind"] == "grid"], table[table["kind"] == "beta"].iloc[0]
    return [
        least_coverage(
            "least coverage of 95% intervals of a slope, logit, probit and cloglog by rounds, unflagged",
            main[main["flagged"] <= FLAGGED],
            "slope",
            by=CELL,
            held="covers",
            quantities=5,
            design=f"{len(main)} cells: n 500-100,000, 2 to 10 slopes, rho .01-.5, 45% and 5% ones",
        ),
        Claim(
            "cells that hold in all: errors, flagged fits, intercepts and sizes of tests, logit, probit and cloglog",
            f"{len(main)} cells",
            f"{int((~failed[main.index]).sum())}",
            not failed[main.index].any(),
            worst=(
                "; ".join(
                    f"n = {row.n:,}, p = {row.p}, rho = {row.rho:g}: {row.fails}"
                    for row in main.itertuples()
                    if row.fails
                )
            ),
        ),
        Claim(
            "coverage and width of 90% intervals of a slope, logit",
            "slope 2, x uniform on [-1, 1], n = 1,000, GDP(.5)",
            f"{beta['slope']:.3f} at {beta['width']:.3f}",
            not beta["fails"],
            published=".889 at .604 (pure, epsilon 1)",
            error=error,
        ),
        least_coverage(
            "least coverage of a slope where the logit is wrong",
            table[table["kind"].isin(["quadratic", "far out"])],
            "slope",
            by=CELL,
            quantities=3,
            design="a curve fitted by a line; a regressor with rows far out",
        ),
    ]
