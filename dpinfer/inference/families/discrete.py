"""Families of counts: moments of the clamped value in closed form."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpinfer.errors import OptionError
from dpinfer.inference.families.base import Array, ExponentialFamily, Features, Moments, Parameter, mismatch, quoted
from dpinfer.schema.columns import Boolean, Integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.schema.columns import Column

__all__ = ["Bernoulli", "Binomial", "Geometric", "Poisson"]

_PROBABILITY = (Parameter("p", 0.0, 1.0),)


class _Count(ExponentialFamily):
    """One parameter, and the value itself as statistic."""

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return (quoted(column),)

    @abstractmethod
    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        """Mean of the clamped value above its lower bound, its variance, and the mean's derivative, each (R,)."""
        ...

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        mean, variance, slope = self._value(theta[:, 0], lower, upper)
        ends = features(np.array([lower, upper]))
        rate = (ends[1] - ends[0]) / (upper - lower)
        cov = np.maximum(variance, 0.0)[:, None, None] * np.outer(rate, rate)
        return Moments(ends[0] + mean[:, None] * rate, cov, slope[:, None, None] * rate[:, None])


@dataclass(frozen=True)
class Binomial(_Count):
    """The binomial distribution for `expfam`: successes among a known number of trials.

    Parameters
    ----------
    trials : int
        At least 1.

    Raises
    ------
    OptionError
        If ``trials`` is no such number.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(hits=dpi.Integer(0, 10))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(hits=rng.binomial(10, 0.3, 5000))
    >>> results = dpi.expfam("hits", dpi.PublicData(frame, schema, rng=rng), family=dpi.Binomial(10)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params.iloc[0] - 0.3) < 0.02)
    True
    """

    trials: int
    name: str = field(default="binomial", init=False)
    parameters = _PROBABILITY
    natural_names = ("logit(p)",)

    def __post_init__(self) -> None:
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 1:
            raise OptionError("trials", self.trials, "a whole number of at least 1")

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        if isinstance(declared, Boolean) and self.trials == 1:
            return
        if not isinstance(declared, Integer) or declared.lower < 0 or declared.upper > self.trials:
            raise mismatch(self.name, column, declared, f"Integer(lower, upper) within [0, {self.trials}]")

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return np.asarray(special.logit(theta))

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return means / self.trials

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-9, 1 - 1e-9]])

    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        m, p = self.trials, theta

        def between(trials: int, low: float, high: float) -> Array:
            return _below(trials, high, p) - _below(trials, low - 1, p)

        if m == 1:
            return p - lower, p * (1 - p), np.ones_like(p)
        first = m * p * between(m - 1, lower - 1, upper - 1)
        second = m * (m - 1) * p**2 * between(m - 2, lower - 2, upper - 2) + first
        inside, above = between(m, lower, upper), 1 - _below(m, upper, p)
        mean = first - lower * inside + (upper - lower) * above
        square = second - 2 * lower * first + lower**2 * inside + (upper - lower) ** 2 * above
        return mean, square - mean**2, m * between(m - 1, lower, upper - 1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return rng.binomial(self.trials, theta[0], size).astype(np.float64)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Binomial:
        """See `ExponentialFamily`."""
        return cls(stored["trials"])

    def to_dict(self) -> dict[str, Any]:
        """See `ExponentialFamily`."""
        return {"name": self.name, "trials": self.trials}


def _below(trials: int, k: float, p: Array) -> Array:
    """P(X <= k) of a binomial variable, for any whole k."""
    if k < 0:
        return np.zeros_like(p)
    if k >= trials:
        return np.ones_like(p)
    return np.asarray(special.betainc(trials - k, k + 1.0, 1 - p))


@dataclass(frozen=True)
class Bernoulli(Binomial):
    """A truth value, or 0 and 1."""

    trials: int = field(default=1, init=False, repr=False)
    name: str = field(default="bernoulli", init=False)

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        if isinstance(declared, Boolean) or (
            isinstance(declared, Integer) and (declared.lower, declared.upper) == (0, 1)
        ):
            return
        raise mismatch(self.name, column, declared, "Boolean() or Integer(0, 1)")

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Bernoulli:  # noqa: ARG003
        """See `ExponentialFamily`."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """See `ExponentialFamily`."""
        return {"name": self.name}


@dataclass(frozen=True)
class Poisson(_Count):
    """Counts with a constant rate."""

    name: str = field(default="poisson", init=False)
    parameters = (Parameter("rate", 0.0, np.inf),)
    natural_names = ("log(rate)",)

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        if not isinstance(declared, Integer) or declared.lower < 0:
            raise mismatch(self.name, column, declared, "Integer(lower, upper) with lower >= 0")

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return np.log(theta)

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return means

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-8, 10 * (upper + 10)]])

    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        def between(low: float, high: float) -> Array:
            below: Array | float = special.pdtr(low - 1, theta) if low > 0 else 0.0
            return (special.pdtr(high, theta) if high >= 0 else 0.0 * theta) - below

        first = theta * between(lower - 1, upper - 1)
        second = theta**2 * between(lower - 2, upper - 2) + first
        inside, above = between(lower, upper), special.pdtrc(upper, theta)
        mean = first - lower * inside + (upper - lower) * above
        square = second - 2 * lower * first + lower**2 * inside + (upper - lower) ** 2 * above
        return mean, square - mean**2, between(lower, upper - 1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return rng.poisson(theta[0], size).astype(np.float64)


@dataclass(frozen=True)
class Geometric(_Count):
    """Number of failures before the first success: 0, 1, 2, ... with probability ``p (1 - p)**k``."""

    name: str = field(default="geometric", init=False)
    parameters = _PROBABILITY
    natural_names = ("log(1 - p)",)

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        if not isinstance(declared, Integer) or declared.lower < 0:
            raise mismatch(self.name, column, declared, "Integer(lower, upper) with lower >= 0; 0 is possible")

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return np.log1p(-theta)

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return 1 / (1 + np.maximum(means, 0.0))

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1 / (1 + 10 * (upper + 10)), 1 - 1e-9]])

    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        width, log_q = upper - lower, np.log1p(-theta)
        tail = np.exp((lower + 1) * log_q)
        power = np.exp(width * log_q)
        sums = -np.expm1(width * log_q) / theta
        weighted = (np.exp(log_q) * sums - width * power) / theta
        mean = tail * sums
        square = tail * (2 * weighted + sums)
        slope = -np.exp(lower * log_q) * ((lower + 1) * sums + weighted)
        return mean, square - mean**2, slope

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return rng.geometric(theta[0], size).astype(np.float64) - 1.0
