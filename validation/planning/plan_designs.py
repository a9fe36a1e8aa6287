"""Designs that plans are compared in with what studies measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import dpinfer as dpi

GROUPS = ("a", "b", "c")
SHARES = (0.5, 0.3, 0.2)


def schema() -> dpi.Schema:
    """Declare the columns of every design."""
    return dpi.Schema(
        x=dpi.Real(-1, 1),
        z=dpi.Real(0, 1),
        y=dpi.Real(-2, 2),
        g=dpi.Category(list(GROUPS)),
        b=dpi.Boolean(),
        s=dpi.Real(0, 4),
    )


def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Draw rows: an even and a skewed regressor, a response, groups, a truth value that depends on both."""
    x, z = rng.uniform(-1, 1, n), rng.beta(1, 4, n)
    g = rng.choice(GROUPS, n, p=SHARES)
    y = np.clip(0.1 * x - 0.15 * z + 0.06 * (g == "b") + 0.4 * rng.normal(size=n), -2, 2)
    b = rng.random(n) < 1 / (1 + np.exp(0.3 - 0.4 * x + 0.5 * z - 0.3 * (g == "c")))
    return {"x": x, "z": z, "y": y, "g": g, "b": b, "s": np.minimum(rng.gamma(2, 0.5, n), 4)}


@dataclass(frozen=True)
class PlanDesign:
    """One design.

    Attributes
    ----------
    family : str
    asked : Procedure
    term : str
        Whose width and power are compared; of a chi-squared test there is none.
    n : int
    privacy : Privacy
    neighbors : str
    effect : float
        True value of the term, at which power is compared; NaN where the test of zero is of no interest.
    solved : str
        What is then solved, for another width: "n" or "privacy".
    """

    family: str
    asked: Any
    term: str
    n: int
    privacy: Any
    neighbors: str
    effect: float
    solved: str

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.family}, n = {self.n:,}, {self.privacy}, {self.neighbors}"


FAMILIES: dict[str, tuple[Any, str, int]] = {
    "least squares, cross-products": (dpi.ols("y ~ x + z", method="gram"), "x", 5),
    "least squares, iterations": (dpi.ols("y ~ x + z"), "x", 6),
    "logit, iterations": (dpi.logit("b ~ x + z"), "x", 5),
    "means by group": (dpi.mean("y", by="g"), "y[g=b]", 5),
    "proportion": (dpi.proportion("b"), "b", 5),
    "shares of a table": (dpi.proportion("g", by="b"), "g=b[b=True]", 5),
    "median": (dpi.median("s"), "0.5", 4),
    "chi-squared": (dpi.chi2_contingency("g", "b"), "", 4),
}
"""Question, term, and number of designs."""

GRID = (
    (1_000, dpi.ZCDP(0.1), "add_remove"),
    (4_000, dpi.ZCDP(0.02), "replace_one"),
    (6_000, dpi.PureDP(1.0), "replace_one"),
    (10_000, dpi.ZCDP(0.02), "add_remove"),
    (2_000, dpi.GDP(0.7), "add_remove"),
    (4_000, dpi.ZCDP(0.1), "add_remove"),
)
"""Rows, prices and relations: a family takes the first of them."""

EFFECTS = {
    "least squares, cross-products": 0.1,
    "least squares, iterations": 0.1,
    "logit, iterations": 0.4,
    "means by group": 0.03,
}
"""True values, where they are known: those that `draw` is made with."""

ENOUGH = 4_000
"""Rows from which the chi-squared test has the power that is aimed at, at some price: fewer are solved for."""


def solved(term: str, n: int, place: int) -> str:
    """Say what a design solves: the price and the rows in turn, where a price can do."""
    return "n" if not term and n < ENOUGH else ("privacy", "n")[place % 2]


DESIGNS = tuple(
    PlanDesign(family, asked, term, n, privacy, neighbors, EFFECTS.get(family, np.nan), solved(term, n, place))
    for family, (asked, term, count) in FAMILIES.items()
    for place, (n, privacy, neighbors) in enumerate(GRID[:count])
)
