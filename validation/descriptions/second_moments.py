"""Coverage and width of intervals for variances, covariances and correlations of normal, heavy and skewed columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy import special, stats

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from validation.common import simulated
from validation.common.real import RealRows
from validation.common.simulated import Case
from validation.common.study import Study

PRICES = (dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0))
SIZES = {"add_remove": (200, 2000, 20_000), "replace_one": (20_000,)}
LIGHT_PRICES = (*PRICES, dpi.ZCDP(0.1))
"""Those of light tails, which are covered least between the others."""

NODES = 801
REACH = 30.0

BOUNDS = {
    "normal": {"tight": (-3.0, 3.0), "loose": (-6.0, 6.0)},
    "t5": {"tight": (-4.0, 4.0), "loose": (-10.0, 10.0)},
    "t3": {"tight": (-4.0, 4.0), "loose": (-10.0, 10.0)},
    "exponential": {"tight": (-1.0, 5.0), "loose": (-2.0, 18.0)},
    "lognormal": {"tight": (-1.4, 5.0), "loose": (-3.0, 17.0)},
    "uniform": {"tight": (-2.0, 2.0), "loose": (-4.0, 4.0)},
    "two humps": {"tight": (-2.0, 2.0), "loose": (-4.0, 4.0)},
}
"""Of columns with mean 0 and variance 1: tight ones cut off the tails, loose ones are two to four times as wide."""

LIGHT = ("uniform", "two humps")
"""Their fourth moments are smaller than those of normal columns, and noise hides that."""

HUMPS = stats.beta(0.1, 0.1, loc=-np.sqrt(1.2), scale=2 * np.sqrt(1.2))
"""Values near either end, of variance 1."""

RELATED = ("normal", "t5", "exponential", "lognormal")
CORRELATIONS = (0.0, 0.5, 0.8, 0.99)


def standard(law: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw n values of a law with mean 0 and variance 1, before any clamping."""
    if law == "normal":
        return rng.standard_normal(n)
    if law in ("t5", "t3"):
        df = int(law[1:])
        return rng.standard_normal(n) * np.sqrt((df - 2) / rng.chisquare(df, n))
    if law == "exponential":
        return rng.standard_exponential(n) - 1.0
    if law == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    if law == "two humps":
        return HUMPS.rvs(n, random_state=rng)
    spread = 0.6**2
    return (np.exp(0.6 * rng.standard_normal(n) - spread / 2) - 1.0) / np.sqrt(np.expm1(spread))


@dataclass(frozen=True)
class Related:
    """Two columns, y = r x + (1 - r^2)^(1/2) e with x and e of one law; and a group, apart from both."""

    law: str
    r: float = 0.0

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        x, error = standard(self.law, rng, n), standard(self.law, rng, n)
        y = self.r * x + np.sqrt(1 - self.r**2) * error
        return {"x": x, "y": y, "group": rng.integers(0, 2, n), "weight": rng.uniform(0.5, 2.0, n)}


@dataclass(frozen=True)
class Bounded:
    """Makes the schema; under replace_one missing cells have declared constants, so that n is public."""

    law: str
    bounds: str

    def __call__(self, neighbors: str) -> dpi.Schema:
        """Declare the columns."""
        policy = {"missing": 0, "impossible": 0} if neighbors == "replace_one" else {}
        lower, upper = BOUNDS[self.law][self.bounds]
        return dpi.Schema(
            x=dpi.Real(lower, upper, **policy),
            y=dpi.Real(lower, upper, **policy),
            group=dpi.Integer(0, 1, **policy),
            weight=dpi.Real(0, 2, **policy),
        )


@cache
def nodes(law: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of a law and their weights: the trapezoidal rule over the logit of its distribution function."""
    logit = np.linspace(-REACH, REACH, NODES)
    weight = special.expit(logit) * special.expit(-logit)
    tail = special.expit(-np.abs(logit))
    found = {
        "normal": stats.norm(),
        "t5": stats.t(5, scale=np.sqrt(3 / 5)),
        "t3": stats.t(3, scale=np.sqrt(1 / 3)),
        "exponential": stats.expon(loc=-1.0),
        "lognormal": stats.lognorm(
            0.6, loc=-1 / np.sqrt(np.expm1(0.36)), scale=np.exp(-0.18) / np.sqrt(np.expm1(0.36))
        ),
        "uniform": stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)),
        "two humps": HUMPS,
    }[law]
    return np.where(logit < 0, found.ppf(tail), found.isf(tail)), weight / weight.sum()


@cache
def moments(law: str, bounds: str, r: float) -> tuple[float, float, float]:
    """Variances of the clamped columns and their covariance, by quadrature."""
    values, weight = nodes(law)
    x = np.clip(values, *BOUNDS[law][bounds])
    y = np.clip(r * values[:, None] + np.sqrt(1 - r**2) * values, *BOUNDS[law][bounds])
    x = x - weight @ x
    y = y - weight @ y @ weight
    return float(weight @ x**2), float(weight @ y**2 @ weight), float((weight * x) @ y @ weight)


def asked() -> list[tuple]:
    """Variances and correlations of every law and bounds; groups, weights and covariances of some; light tails.

    The last of each is the least number of rows.
    """
    found = [_variance(law, bounds) for law in BOUNDS for bounds in BOUNDS[law]]
    for law, r in product(RELATED, CORRELATIONS):
        for bounds in BOUNDS[law]:
            first, second, both = moments(law, bounds, r)
            truth = {"corr(x, y)": both / np.sqrt(first * second)}
            found.append((f"corr {r:g}, {law}", law, bounds, r, dpi.corr(["x", "y"]), truth, 200))
    first, second, both = moments("normal", "tight", 0.8)
    value = both / np.sqrt(first * second)
    groups = {f"corr(x, y)[group={group}]": value for group in (0, 1)}
    named = {"cov(x, x)": first, "cov(x, y)": both, "cov(y, y)": second}
    return found + [
        (name, "normal", "tight", 0.8, procedure, truth, 2000)
        for name, procedure, truth in (
            ("corr 0.8 by group, normal", dpi.corr(["x", "y"], by="group"), groups),
            ("corr 0.8 weighted, normal", dpi.corr(["x", "y"], weights="weight"), {"corr(x, y)": value}),
            ("cov 0.8, normal", dpi.cov(["x", "y"]), named),
            ("variance weighted, normal", dpi.variance("x", weights="weight"), {"x": first}),
        )
    ]


def _variance(law: str, bounds: str) -> tuple:
    return f"variance, {law}", law, bounds, 0.0, dpi.variance("x"), {"x": moments(law, bounds, 0.0)[0]}, 200


REAL = (
    ("fair: affairs", 20_000), ("randhie: mdvis", 20_000), ("bwght: cigs", 2000), ("smoke: income", 2000),
    ("injury: durat", 20_000), ("pension: wealth89", 2000), ("anes96: TVnews", 2000), ("gpa2: sat", 2000),
    ("htv: wage", 20_000), ("engel: income, foodexp", 2000), ("ccard: INCOME, AVGEXP", 2000),
    ("gpa2: sat, colgpa", 2000), ("econmath: hsgpa, score", 2000),
)  # fmt: skip
"""Columns whose variance is asked for, or pairs whose correlation is, and rows."""


def real_cases() -> list[Case]:
    """Variances and correlations of real columns, relations in turns."""
    found = []
    for place, (name, n) in enumerate(REAL):
        rows = RealRows.of(name)
        if len(rows.columns) == 1:
            asked, truth = dpi.variance(rows.columns[0]), {rows.columns[0]: float(rows.values().var())}
        else:
            asked = dpi.corr([*rows.columns])
            truth = {term: one for term, one in rows.products().items() if term.startswith("corr")}
        found.append(Case(f"{asked.kind} of {name}", "codebook", rows, asked, truth, rows.schema, n, PRICES,
                          NEIGHBORS[place % 2]))  # fmt: skip
    return found


def study(name: str, what: str, *, light: bool) -> Study:
    """Return the study of light tails, or of the others."""

    def cases() -> list[Case]:
        return [
            Case(
                design,
                bounds,
                Related(law, r),
                procedure,
                truth,
                Bounded(law, bounds),
                n,
                LIGHT_PRICES if light else PRICES,
                neighbors,
            )
            for design, law, bounds, r, procedure, truth, least in asked()
            for neighbors in NEIGHBORS
            for n in (SIZES["add_remove"] if light else SIZES[neighbors])
            if (law in LIGHT) == light and n >= least
        ] + ([] if light else real_cases())

    return simulated.study(
        name,
        cases,
        what,
        notes=(
            "The truth is that of clamped values, by quadrature; of real columns, whose rows are drawn with "
            "replacement, that of all rows.",
        ),
    )


STUDY = (
    study("second_moments", "second moments", light=False),
    study("second_moments_light", "variances of light tails", light=True),
)
