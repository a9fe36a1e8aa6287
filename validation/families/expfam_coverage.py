"""Coverage and width of the intervals of every exponential family, with loose bounds and with bounds that clamp 5%."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from validation.common import simulated
from validation.common.simulated import Case

SIZES = (20, 50, 200, 2000)
PRICES = {"add_remove": (dpi.ZCDP(0.1), dpi.PureDP(2.0)), "replace_one": (dpi.ZCDP(0.5),)}


@dataclass(frozen=True)
class Law:
    """A family at true parameters: how it is drawn, and where its bounds are.

    "loose" bounds hold all but one value in 10,000; "tight" bounds clamp 5% of the values.
    """

    family: str
    truth: tuple[tuple[str, float], ...]
    discrete: bool = False

    @cached_property
    def frozen(self) -> Any:
        """The law in scipy, made once: making it takes longer than a draw."""
        p = dict(self.truth)
        made = {
            "bernoulli": lambda: stats.bernoulli(p["p"]),
            "binomial": lambda: stats.binom(10, p["p"]),
            "poisson": lambda: stats.poisson(p["rate"]),
            "geometric": lambda: stats.geom(p["p"], loc=-1),
            "exponential": lambda: stats.expon(scale=p["mean"]),
            "gamma": lambda: stats.gamma(p["shape"], scale=p["scale"]),
            "normal": lambda: stats.norm(p["mean"], p["sd"]),
            "lognormal": lambda: stats.lognorm(p["sdlog"], scale=np.exp(p["meanlog"])),
            "beta": lambda: stats.beta(p["a"], p["b"]),
        }
        return made[self.family]()

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n values."""
        return {"x": np.asarray(self.frozen.rvs(size=n, random_state=rng), dtype=float)}

    def column(self, bounds: str, neighbors: str) -> dpi.Schema:
        """The column with its bounds; under replace_one missing cells have a declared constant."""
        tail = 1e-4 if bounds == "loose" else 0.05
        low, high = 0.0, float(self.frozen.isf(tail))
        if self.family in ("normal", "lognormal", "gamma", "beta"):
            low, high = float(self.frozen.ppf(tail / 2)), float(self.frozen.isf(tail / 2))
        policy = {} if neighbors == "add_remove" else {"missing": low, "impossible": low}
        if self.family == "bernoulli":
            policy = {} if neighbors == "add_remove" else {"missing": False, "impossible": False}
            return dpi.Schema(x=dpi.Boolean(**policy))
        if self.discrete:
            policy = {name: int(value) for name, value in policy.items()}
            top = 10 if self.family == "binomial" and bounds == "loose" else max(int(high), 1)
            return dpi.Schema(x=dpi.Integer(0, top, **policy))
        return dpi.Schema(x=dpi.Real(low, high, **policy))


LAWS = (
    Law("bernoulli", (("p", 0.3),), discrete=True),
    Law("binomial", (("p", 0.2),), discrete=True),
    Law("poisson", (("rate", 3.0),), discrete=True),
    Law("geometric", (("p", 0.4),), discrete=True),
    Law("exponential", (("mean", 10.0),)),
    Law("gamma", (("shape", 2.0), ("scale", 3.0))),
    Law("normal", (("mean", 1.0), ("sd", 1.0))),
    Law("lognormal", (("meanlog", 0.0), ("sdlog", 0.5))),
    Law("beta", (("a", 2.0), ("b", 4.0))),
)
DISCRETE = (*(law.family for law in LAWS if law.discrete), "categorical")


@dataclass(frozen=True)
class Joint:
    """Two normals with correlation .6, and a category with an uncommon level."""

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        z = rng.normal(size=(2, n))
        return {
            "x": 1.0 + z[0],
            "y": 0.3 + 0.7 * (0.6 * z[0] + 0.8 * z[1]),
            "k": np.array(["a", "b", "c"])[np.searchsorted([0.7, 0.95], rng.random(n))],
        }

    def columns(self, bounds: str, neighbors: str) -> dpi.Schema:
        """Bounds of 3.7 standard deviations, or of 1.96, which clamp 5%."""
        reach = 3.7 if bounds == "loose" else 1.96
        policy = {} if neighbors == "add_remove" else {"missing": 0.3, "impossible": 0.3}
        level = {} if neighbors == "add_remove" else {"missing": "a", "impossible": "a"}
        return dpi.Schema(
            x=dpi.Real(1 - reach, 1 + reach, **policy),
            y=dpi.Real(0.3 - 0.7 * reach, 0.3 + 0.7 * reach, **policy),
            k=dpi.Category(["a", "b", "c"], **level),
        )


def _case(name: str, bounds: str, relation: str, generate: Any, asked: Any, truth: Any, schema: Any) -> list[Case]:
    return [
        Case(name, bounds, generate, asked, dict(truth), schema, n, PRICES[relation], relation, name in DISCRETE)
        for n in SIZES
    ]


def cases() -> list[Case]:
    """Every family with both kinds of bounds under add_remove, with tight ones under replace_one.

    A Bernoulli variable and a category have no bounds to choose.
    """
    joint, found = Joint(), []
    normal = {"mean(x)": 1.0, "mean(y)": 0.3, "sd(x)": 1.0, "sd(y)": 0.7, "corr(x, y)": 0.6}
    shares = {"k=a": 0.7, "k=b": 0.25, "k=c": 0.05}
    for relation in PRICES:
        both = ("loose", "tight") if relation == "add_remove" else ("tight",)
        for law, bounds in product(LAWS, both):
            if law.family == "bernoulli" and bounds != "loose" and relation == "add_remove":
                continue
            given = "loose" if law.family == "bernoulli" else bounds
            family = dpi.Binomial(10) if law.family == "binomial" else law.family
            found += _case(law.family, given, relation, law, dpi.expfam("x", family=family), law.truth,
                           partial(law.column, given))  # fmt: skip
        for bounds in both:
            found += _case("multivariate normal", bounds, relation, joint, dpi.expfam(["x", "y"], family="normal"),
                           normal, partial(joint.columns, bounds))  # fmt: skip
        found += _case("categorical", "loose", relation, joint, dpi.expfam("k", family="categorical"), shares,
                       partial(joint.columns, "loose"))  # fmt: skip
    return found


STUDY = simulated.study("expfam_coverage", cases, "exponential families")
