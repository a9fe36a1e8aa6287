"""What a regression of counts or positive numbers asks of the rows: tables, terms and prices of each round.

With mu the mean, V its variance function, w = mu^2/V and z the coordinates, a row adds to the score
``v sqrt(w) z (psi - E psi)``, where psi is the Pearson residual (y - mu)/sqrt V, cut, and E its expectation under the
law: see Cantoni & Ronchetti (2001). The Hessian is the expected one. Cutting moves the intercept where the law is
wrong: it is set by the sum of y - mu, cut much farther out; see `dpinfer.inference.newton_level`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.rows.interpolants import Interpolant
from dpinfer.kernel.rows.rounds import Term
from dpinfer.numerics.count_laws import LOG, CountLaw, Gamma, NegativeBinomial, Poisson
from dpinfer.procedures.newton_models import ROWS, Cut, RoundModel, Tables, constant, steps_of

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["CHANCES", "COUNTS", "NODES", "PRICES", "CountCut", "CountModel"]

_NODES = 4096
_EACH = 4
"""Expectations are computed at every fourth node."""

NODES, CHANCES = np.polynomial.hermite_e.hermegauss(21)
CHANCES = CHANCES / CHANCES.sum()
"""Nodes and weights of a rule for normal laws."""

_SPAN = 25.0
"""Linear predictors are told apart over this range, which ends at 10 times the largest response."""

PRICES = {
    False: {"score": 0.75, "hessian": 0.25},
    True: {"score": 0.59, "hessian": 0.22, "meat": 0.07, "level": 0.08, "square": 0.02, "spread": 0.02},
}
"""Prices of the first round and of the last: every term of a row is at most 1, and they add up to 1."""

COUNTS = {"poisson": "Poisson", "negativebinomial": "Negative Binomial", "gamma": "Gamma"}
"""Names of models, and what tables call them."""


@dataclass(frozen=True, eq=False)
class CountCut(Cut):
    """Where Pearson residuals are cut (``low``), and differences y - mu for the level (``high``).

    Attributes
    ----------
    spread, least, most : float
        Standard deviation of Pearson residuals, and what it may be.
    weight : float
        Mean of w, by which coordinates are scaled.
    centre, width : float
        Mean and standard deviation of the linear predictor.
    """

    spread: float = 1.0
    least: float = 1.0
    most: float = 1.0
    weight: float = 1.0
    centre: float = 0.0
    width: float = 0.0


@dataclass(frozen=True)
class CountModel(RoundModel):
    """A response with a log link: a law, and the largest value that the response may have."""

    law: CountLaw
    largest: float = 1.0

    response = LOG

    @classmethod
    def named(cls, name: str, alpha: float | None) -> CountModel:
        """Return a model by name; ``alpha`` is that of the negative binomial law, 1 if nothing is said."""
        if name == "negativebinomial":
            return cls(NegativeBinomial(1.0 if alpha is None else float(alpha)))
        return cls(Poisson() if name == "poisson" else Gamma())

    @property
    def shares(self) -> dict[str, Fraction]:
        """See `RoundModel`."""
        return {
            "response": Fraction(2, 100),
            "start": Fraction(13, 100),
            "counts": Fraction(6, 100),
            "first": Fraction(15, 100),
            "sizes": Fraction(2, 100),
            "second": Fraction(62, 100),
        }

    @property
    def level_of(self) -> str:
        """What the level is summed of: differences, or for a law with constant weights residuals."""
        return "residual" if isinstance(self.law, Gamma) else "difference"

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Linear predictors between which tables are made."""
        high = float(np.log(10 * max(self.largest, 1e-200)))
        return high - _SPAN, high

    @cached_property
    def means(self) -> Array:
        """Means at which tables are made."""
        return np.exp(np.linspace(*self.ends, _NODES + 1))

    def _table(self, values: Array) -> Interpolant:
        return Interpolant(*self.ends, np.ascontiguousarray(values), float(values[0]), float(values[-1]))

    def start_terms(self) -> tuple[Term, ...]:
        """See `RoundModel`: for z and the cut response of length at most 1 each."""
        inside = Interpolant(-1.0, 1.0, np.array([-1.0, 1.0]), -1.0, 1.0)
        part = 1 - ROWS
        return (
            Term("score", "vector", 0.5 * part, inside),
            Term("gram", "matrix", 0.3 * part, constant(1.0)),
            Term("square", "mass", 0.2 * part, steps_of(np.square, -1.0, 1.0, 256)),
            Term("rows", "mass", ROWS, constant(1.0), power=0),
        )

    def start_tables(self, offset: float) -> Tables:
        """Tables with which the start sees rates at a typical offset: y exp(offset - its own)."""
        return Tables(constant(0.0), steps_of(lambda own: np.exp(offset - own), offset - 5.0, offset + 5.0))

    def tables(self, cut: Cut | None = None) -> Tables:
        """See `RoundModel`."""
        weight = cut.weight if isinstance(cut, CountCut) else 1.0
        return Tables(
            self._table(self.means),
            self._table(self.law.variance(self.means) ** -0.5),
            self._table(np.sqrt(self.law.weight(self.means) / weight)),
        )

    def expected(self, cut: CountCut) -> tuple[Array, Array]:
        """Return the expectation of the cut residual at the means of the tables, and the information that it keeps."""
        found = self.extremes(cut)
        return np.mean([one for one, _ in found], axis=0), np.mean([kept for _, kept in found], axis=0)

    def extremes(self, cut: CountCut) -> list[tuple[Array, Array]]:
        """Return the same under each of the laws that spread as residuals do.

        Which of them holds is not known: the mean of both expectations is taken off, and half of their distance is a
        bound on the bias.
        """
        return [_expected(self, law, cut.low, cut.spread) for law in self._laws(cut)]

    def extremes_at(self, cut: CountCut, means: Array) -> list[tuple[Array, Array]]:
        """Return the same as `extremes` at these means."""
        return [_expected_at(self, law, means, cut.low, cut.spread) for law in self._laws(cut)]

    def expected_at(self, cut: CountCut, means: Array) -> tuple[Array, Array]:
        """Return the same as `expected` at these means."""
        found = self.extremes_at(cut, means)
        return np.mean([one for one, _ in found], axis=0), np.mean([kept for _, kept in found], axis=0)

    def squares(self, cut: CountCut, means: Array) -> list[tuple[Array, Array]]:
        """Return expectations of the cut residual and of its square, at these means, under each of the same laws."""
        size = np.sqrt(self.law.variance(means))
        found = []
        for law in self._laws(cut):
            first, _ = law.cut(means, -cut.low * size, cut.low * size, cut.spread)
            square = law.cut_square(means, -cut.low * size, cut.low * size, cut.spread)
            left, right = np.nan_to_num(first / size), np.nan_to_num(square / size**2, nan=cut.spread**2)
            found.append((np.clip(left, -cut.low, cut.low), np.clip(right, 1e-12, cut.low**2)))
        return found

    def expected_level(self, cut: CountCut, means: Array) -> Array:
        """Return the expectation of what the level adds up, in the mean of the laws that spread as residuals do."""
        size = np.sqrt(self.law.variance(means)) if self.level_of == "residual" else np.ones_like(means)
        ends = cut.high * size
        found = [np.nan_to_num(law.cut(means, -ends, ends, cut.spread)[0] / size) for law in self._laws(cut)]
        return np.asarray(np.mean(found, axis=0))

    def _laws(self, cut: CountCut) -> tuple[CountLaw, ...]:
        means = np.exp(np.clip(cut.centre + cut.width * NODES, *self.ends))
        return self.law.spreading(cut.spread, means, CHANCES)

    def slope_factor(self, cut: CountCut, means: Array, chances: Array) -> float | None:
        """Return the sum of means over what the Hessian keeps of them; None for laws whose Hessian weighs otherwise."""
        if not isinstance(self.law, Poisson):
            return None
        kept = np.interp(means, self.means, self.expected(cut)[1])
        return float((means @ chances) / max(float((means * kept) @ chances), 1e-300))

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """See `RoundModel`."""
        assert isinstance(cut, CountCut)
        prices = PRICES[last]
        center, kept = self.expected(cut)
        largest = self._largest(cut, center)
        c, hi = cut.low, cut.high
        score = Interpolant(-c, c, np.array([-c, c]) / largest, -c / largest, c / largest)
        weights = self.law.weight(self.means) / cut.weight
        found = (
            Term("score", "vector", prices["score"], score, center=self._table(center / largest)),
            Term("hessian", "matrix", prices["hessian"], self._table(kept * weights), of="linear"),
        )
        if not last:
            return found
        level = Interpolant(-hi, hi, np.array([-1.0, 1.0]), -1.0, 1.0)
        square = steps_of(lambda one: (one / hi) ** 2, -hi, hi, 1024)
        return (
            *found,
            Term("meat", "outer", prices["meat"]),
            Term("level", "number", prices["level"], level, of=self.level_of),
            Term("square", "mass", prices["square"], square, of=self.level_of, power=2),
            Term("spread", "mass", prices["spread"], steps_of(lambda one: (one / c) ** 2, -c, c, 1024), power=2),
        )

    @staticmethod
    def _largest(cut: CountCut, center: Array) -> float:
        return cut.low + float(np.abs(center).max())

    def factors(self, cut: Cut) -> tuple[float, float]:
        """See `RoundModel`."""
        assert isinstance(cut, CountCut)
        center, _ = self.expected(cut)
        return self._largest(cut, center) * float(np.sqrt(cut.weight)), cut.weight


@lru_cache(maxsize=64)
def _expected(model: CountModel, law: CountLaw, cut: float, spread: float) -> tuple[Array, Array]:
    """Return expectations under a law for residuals of the model, at the means of the tables."""
    found = _expected_at(model, law, model.means[::_EACH], cut, spread)
    steps, places = np.arange(len(found[0])) * _EACH, np.arange(len(model.means))
    return np.interp(places, steps, found[0]), np.interp(places, steps, found[1])


def _expected_at(model: CountModel, law: CountLaw, means: Array, cut: float, spread: float) -> tuple[Array, Array]:
    size = np.sqrt(model.law.variance(means))
    first, product = law.cut(means, -cut * size, cut * size, spread)
    kept = product / (law.variance(means) * law.dispersion(spread))
    return np.nan_to_num(np.clip(first / size, -cut, cut)), np.nan_to_num(np.clip(kept, 0.0, 1.0), nan=1.0)
