"""What a model asks of the rows in each round: tables of the linear predictor and of the residual, terms and prices.

A price is right if no row pays more than 1 for all terms of a round together; which prices are right is proved in
`docs/regression.md`. Wrong ones would cost rows, never privacy: the kernel forces every row into what it prices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.kernel.rows.interpolants import Interpolant
from dpinfer.kernel.rows.rounds import Term
from dpinfer.numerics.responses import BINARY

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.numerics.arrays import Array
    from dpinfer.numerics.responses import Response
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.procedures.newton_residuals import Seen

__all__ = ["BinaryModel", "EqualSpreadModel", "LinearModel", "RoundModel", "Tables", "cut_of"]

ROWS = 0.02
"""Part of the price of the first round that counts rows."""

_NODES = 4096


@dataclass(frozen=True, eq=False)
class Tables:
    """Functions of the linear predictor that a round reads; see `RoundFrame`."""

    mean: Interpolant | None = None
    inverse_sd: Interpolant | None = None
    lift: Interpolant | None = None


@dataclass(frozen=True, eq=False)
class Cut:
    """Where residuals are cut: at ``low``, and what lies beyond counts up to ``high``; in the unit of the response.

    ``meat`` and ``hessian`` are what released ones are multiplied by. ``intercept`` is the variance that the choice of
    the cut adds to the intercept, and ``bias`` the largest bias that smoothing gives it.
    """

    low: float = 1.0
    high: float = 2.0
    meat: float = 1.0
    hessian: float = 1.0
    intercept: float = 0.0
    bias: float = 0.0


def cut_of(settings: Any) -> Cut:
    """Read where residuals are cut."""
    names = {"cut": "low", **{name: name for name in ("high", "meat", "hessian", "intercept", "bias")}}
    return Cut(**{mine: float(settings[name]) for name, mine in names.items() if name in settings})


def steps_of(function: Callable[[Array], Array], low: float, high: float, nodes: int = _NODES) -> Interpolant:
    """Return a function as a table, held at its ends."""
    values = np.asarray(function(np.linspace(low, high, nodes + 1)), dtype=np.float64)
    return Interpolant(low, high, values, float(values[0]), float(values[-1]))


def constant(value: float) -> Interpolant:
    """Return a number as a function."""
    return Interpolant(-1.0, 1.0, np.array([value, value]), value, value)


class RoundModel(ABC):
    """What a model asks of the rows, round by round.

    Attributes
    ----------
    response : Response or None
        Its mean function; None where the linear predictor is the mean.
    finest : int
        Residuals are counted in half octaves from this one on, of which 0 ends at one standard deviation.
    local : bool
        Whether Hessians serve near their points alone, so that the first round finds the point of the last, no more.
    gives_back : bool
        Whether what was cut is released, and given back.
    assumes : str
        What tables say of standard errors.
    """

    response: Response | None
    finest: ClassVar[int] = -2
    local: ClassVar[bool] = False
    gives_back: ClassVar[bool] = False
    assumes: ClassVar[str] = (
        "Standard errors are robust to unequal spread and to a wrong model, whose best approximation is then what is "
        "estimated."
    )

    @property
    @abstractmethod
    def shares(self) -> dict[str, Fraction]:
        """Shares of the price for ranges, start, counts, first and second."""

    @abstractmethod
    def start_terms(self) -> tuple[Term, ...]:
        """Terms of the start: "rows", "gram" and "score" at coefficients of zero, for a cut response."""

    @abstractmethod
    def tables(self) -> Tables:
        """Functions of the linear predictor in later rounds."""

    @abstractmethod
    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """Terms of a later round: "score", "hessian", and in the last one "meat"."""

    def under(self, norm: Norm, width: int) -> RoundModel:  # noqa: ARG002
        """Return the model for noise of a norm and a number of regressors."""
        return self

    def factors(self, cut: Cut) -> tuple[float, float]:  # noqa: ARG002
        """Return what the released score and Hessian are multiplied by."""
        return 1.0, 1.0

    def notes(self, cut: Cut, unit: float) -> list[str]:  # noqa: ARG002
        """Return sentences for tables, ``unit`` being that of the residuals."""
        return []

    def warnings(self, rows: float, noise: float) -> tuple[str, ...]:  # noqa: ARG002
        """Return warnings from the number of rows and the noise of the sum of all residuals' scores."""
        return ()

    def longest(self, cut: Cut) -> float:  # noqa: ARG002
        """Longest step of the first round, for rows of length 1."""
        return 3.0

    def tuned(self, seen: Seen) -> tuple[Cut, float] | None:  # noqa: ARG002
        """Return where residuals are cut, and what to add to the intercept; None where least squares' rule serves."""
        return None


@dataclass(frozen=True)
class BinaryModel(RoundModel):
    """A binary response with the residual score: logit, probit, cloglog.

    Attributes
    ----------
    link : str
    meat : float
        Share of the last round for the robust covariance.
    ratio : float or None
        Under Laplace noise what `RoundFrame` calls by this name; None under Gaussian noise.
    """

    link: str = "logit"
    meat: float = 0.1
    ratio: float | None = None

    def under(self, norm: Norm, width: int) -> BinaryModel:
        """See `RoundModel`."""
        return replace(self, ratio=ratio_of(width)) if norm == "l1" else self

    @property
    def response(self) -> Response:  # type: ignore[override]
        """Its mean function, and the weight of the Hessian where it is not the slope."""
        response = BINARY[self.link]
        return response if self.ratio is None else replace(response, weight=self._damped)

    @property
    def shares(self) -> dict[str, Fraction]:
        """See `RoundModel`."""
        return {
            "start": Fraction(14, 100),
            "counts": Fraction(2, 100) if self.ratio is None else Fraction(5, 100),
            "first": Fraction(35, 100),
            "second": Fraction(49, 100) if self.ratio is None else Fraction(46, 100),
        }

    def start_terms(self) -> tuple[Term, ...]:
        """See `RoundModel`: the response is measured from one half, so that a score is half as long as z at most."""
        part = 0.4 * (1 - ROWS)
        score, gram = (4 * part, 1.0) if self.ratio is None else (2 * part, 1 / self.ratio)
        return (
            Term("score", "vector", score, of="difference"),
            Term("gram", "matrix", (1 - ROWS - part) * gram, constant(1.0)),
            Term("rows", "mass", ROWS, constant(1.0), power=0),
        )

    def tables(self) -> Tables:
        """See `RoundModel`."""
        return Tables(mean=_mean_table(self.link))

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:  # noqa: ARG002
        """See `RoundModel`."""
        meat = self.meat if last else 0.0
        per = 1.0 if self.ratio is None else 1 / self.ratio
        weight = _slope_table(self.link) if self.ratio is None else _damped_table(self.link)
        found = (
            Term("score", "vector", 1.0 - meat, of="difference"),
            Term("hessian", "matrix", self.largest_price(meat) * per, weight, of="linear"),
        )
        return (*found, Term("meat", "outer", meat * per)) if last else found

    def largest_price(self, meat: float) -> float:
        """Largest price of the Hessian for which no row pays more than 1 beside its score and its meat."""
        means = _mean_table(self.link).values
        largest = np.maximum(means, 1 - means)
        if self.ratio is None:
            weights = _slope_table(self.link).values
            left, size = 1 - (1 - meat) * largest**2 - meat * largest**4, weights**2
        else:
            size = _damped_table(self.link).values
            left = 1 - (1 - meat) * largest - meat * largest**2
        # In the last places of 1 nothing is left to weigh, and the slack of the kernel pays.
        return float((left[size > _NOTHING] / size[size > _NOTHING]).min()) * (1 - 1e-4)

    def _damped(self, predictor: Array) -> Array:
        return damped_slope(BINARY[self.link], predictor)


_NOTHING = 1e-13
"""Weights up to this are no more than what rounding leaves of 1."""


def ratio_of(width: int) -> float:
    """Bound on products over the squared bound on absolute sums that few rows of this many coordinates exceed."""
    return min(1.0, 0.5 + 1.0 / width)


def damped_slope(response: Response, predictor: Array) -> Array:
    """Slope of a mean function, less where the residual leaves nothing of an absolute sum to a Hessian."""
    means = response.mean(predictor)
    return np.minimum(response.slope(predictor), 2.0 * np.minimum(means, 1 - means))


_ENDS = {"logit": (-20.0, 20.0), "probit": (-6.0, 6.0), "cloglog": (-20.0, 3.0)}


@cache
def _mean_table(link: str) -> Interpolant:
    return steps_of(BINARY[link].mean, *_ENDS[link])


@cache
def _slope_table(link: str) -> Interpolant:
    return steps_of(BINARY[link].slope, *_ENDS[link])


@cache
def _damped_table(link: str) -> Interpolant:
    return steps_of(partial(damped_slope, BINARY[link]), *_ENDS[link])


@dataclass(frozen=True)
class LinearModel(RoundModel):
    """Least squares with residuals cut, and what was cut given back."""

    response = None
    gives_back = True

    @property
    def shares(self) -> dict[str, Fraction]:
        """See `RoundModel`."""
        return {
            "ranges": Fraction(10, 100),
            "start": Fraction(13, 100),
            "counts": Fraction(7, 100),
            "first": Fraction(16, 100),
            "second": Fraction(54, 100),
        }

    def start_terms(self) -> tuple[Term, ...]:
        """See `RoundModel`: for z and the cut response of length at most 1 each, (|z|^2 + psi^2)^2 / 4 is at most 1."""
        part = (1 - ROWS) / 4
        inside = Interpolant(-1.0, 1.0, np.array([-1.0, 1.0]), -1.0, 1.0)
        squared = steps_of(np.square, -1.0, 1.0, 256)
        return (
            Term("score", "vector", 2 * part, inside),
            Term("gram", "matrix", part, constant(1.0)),
            Term("square", "mass", part, squared),
            Term("rows", "mass", ROWS, constant(1.0), power=0),
        )

    def tables(self) -> Tables:
        """See `RoundModel`."""
        return Tables()

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """See `RoundModel`: a row is cut, or it is in the Hessian, so that both are paid from one share."""
        c, hi = cut.low, cut.high
        score = Interpolant(-c, c, np.array([-1.0, 1.0]), -1.0, 1.0)
        inlier = Interpolant(-c, c, np.array([1.0, 1.0]), 0.0, 0.0)
        if not last:
            return Term("score", "vector", 0.8, score), Term("hessian", "matrix", 0.2, inlier)
        side = Interpolant(-c, c, np.array([0.0, 0.0]), -1.0, 1.0)
        nodes = max(2, round(hi / c * 32)) * 2
        grid = np.linspace(-hi, hi, nodes + 1)
        beyond = np.maximum(np.abs(grid) - c, 0.0)
        excess = np.sign(grid) * beyond / (hi - c)
        square = np.where(beyond > 0, (grid**2 - c**2) / (hi**2 - c**2), 0.0)
        return (
            Term("score", "vector", 0.60, score),
            Term("hessian", "matrix", 0.26, inlier),
            Term("meat", "outer", 0.14),
            Term("side", "vector", 0.13, side),
            Term("sides", "number", 0.015, side),
            Term("excess", "number", 0.095, Interpolant(-hi, hi, excess, -1.0, 1.0)),
            Term("beyond", "mass", 0.02, Interpolant(-hi, hi, square, 1.0, 1.0), power=2),
        )

    def factors(self, cut: Cut) -> tuple[float, float]:
        """See `RoundModel`: the score is measured in units of where residuals are cut."""
        return cut.low, 1.0


_OF_SPREAD = 0.3
"""Part of the meat's price that the sum of squared residuals gets in its place; the score gets the rest."""


@dataclass(frozen=True)
class EqualSpreadModel(LinearModel):
    """Least squares whose errors spread equally: one sum of squared residuals takes the place of the meat."""

    assumes = (
        "Standard errors assume that errors spread equally and that the model is right: neither is checked, and where "
        "one fails they are wrong."
    )

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """See `LinearModel`: with T the size of the cut residual over ``cut.low``, the meat has size T^2.

        The score has size T at most, and the sum of squares T^2. So a price m T^4 of the meat may become
        (m - s) T^2 + s T^4 of the two: at T = 1, the dearest, both are m, and no row pays more than before.
        """
        found = super().terms(cut, last=last)
        if not last:
            return found
        meat = next(term.price for term in found if term.name == "meat")
        square = steps_of(lambda one: (one / cut.low) ** 2, -cut.low, cut.low, 1024)
        return (
            *(
                replace(one, price=one.price + (1 - _OF_SPREAD) * meat) if one.name == "score" else one
                for one in found
                if one.name != "meat"
            ),
            Term("square", "mass", _OF_SPREAD * meat, square),
        )
