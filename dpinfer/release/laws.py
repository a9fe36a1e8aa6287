"""What one stage released: noisy integers, and the law of their noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from operator import mul
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from dpinfer.checks import are_texts, require, whole
from dpinfer.errors import NotProvedError, ReleaseFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Family = Literal["gaussian", "laplace", "tulap", "gumbel", "exponential", "above"]
FAMILIES = ("gaussian", "laplace", "tulap", "gumbel", "exponential", "above")

CHOICES = ("gumbel", "exponential", "above")
"""Families whose noise is added to scores that are not released: only the place of the largest is, or which pass."""

ABOVE, BELOW, NOT_REACHED = 1, 0, -1
"""What is released of a query under the law "above"."""

TULAP_GRID = 2**32
"""Steps between neighbouring whole numbers under the law "tulap"."""

MOST_DRAWS = 1000
"""Draws that one law may add up."""

NORMAL_DRAWS = 10
"""Draws from which their sum is taken to be normal; fewer are given the heavier tails of a single one."""

_EXACT_BELOW = 1e4

_LARGEST = 1e150
"""Bound on scales and steps, so that variances are finite."""

_LONGEST = 2**24
"""Coordinates that a stored law may have: a damaged count must not fill the memory."""

_ROUNDED_FROM = 64.0
"""Scale from which a rounded Gaussian is within total variation 5e-6 of a discrete one."""


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Independent discrete noise on a vector of integers.

    Attributes
    ----------
    family : {"gaussian", "laplace", "tulap", "gumbel", "exponential", "above"}
        Probability of k proportional to ``exp(-k^2 / (2 s^2))`` or ``exp(-abs(k) / s)``. "tulap" is discrete Laplace
        on the multiples of `TULAP_GRID`, of scale ``s / TULAP_GRID`` multiples, plus a uniform whole number in
        ``[-TULAP_GRID/2, TULAP_GRID/2)`` (Awan & Slavkovic 2018). "gumbel" and "exponential" are the noise of scores
        of which only the place of the largest is released: the number released is that place, and carries no noise.
        "above" is discrete Laplace noise of scores of which `ABOVE`, `BELOW` or `NOT_REACHED` is released.
    scales : tuple of float, length m
        The scale s of every coordinate, in steps of the integers; 0 where a coordinate carries no noise.
    draws : int
        Number of independent draws that are added up; above 1 for "laplace" alone.
    shared : float
        Scale of the one discrete Laplace draw that all coordinates are compared with; 0 unless the family is "above".

    Examples
    --------
    >>> NoiseLaw("laplace", (100.0,)).variances.round(1)
    array([19999.8])
    """

    family: Family
    scales: tuple[float, ...]
    draws: int = 1
    shared: float = 0.0

    def __post_init__(self) -> None:
        whole(1, MOST_DRAWS).check("draws", self.draws)
        require(self.draws == 1 or self.family == "laplace", "draws", self.draws, '1 unless the family is "laplace"')
        require(self.family in FAMILIES, "family", self.family, FAMILIES)
        scales = np.asarray(self.scales)
        require(((scales >= 0) & (scales < _LARGEST)).all(), "scales", self.scales, f"numbers from 0 to {_LARGEST:g}")
        right = 0 <= self.shared < _LARGEST and (self.shared == 0 or self.family == "above")
        require(right, "shared", self.shared, '0 unless the family is "above"')

    @property
    def variances(self) -> Array:
        """Variance of every coordinate (m,), in squared steps; 0 for choices, which are no noisy numbers."""
        known = {scale: _variance(self.family, float(scale)) for scale in {*self.scales}}  # mostly one, of thousands
        return self.draws * np.array([known[scale] for scale in self.scales], dtype=np.float64)

    @property
    def cov(self) -> Array:
        """Covariance matrix (m, m)."""
        return np.diag(self.variances)

    def rvs(self, size: int, rng: np.random.Generator) -> Array:
        """Draw for simulation, never for privacy: (size, m) whole numbers as floats."""
        scales = np.asarray(self.scales)
        if self.family in CHOICES:
            raise NotProvedError("a choice is not simulated from its release: it does not hold the scores")
        if self.family == "gaussian":
            draws = np.rint(rng.normal(size=(size, scales.size)) * scales)
            for scale in np.unique(scales[(scales > 0) & (scales < _ROUNDED_FROM)]):
                support, masses = discrete_masses("gaussian", scale)
                draws[:, scales == scale] = rng.choice(support, (size, int((scales == scale).sum())), p=masses)
            return np.asarray(draws)
        grid = TULAP_GRID if self.family == "tulap" else 1
        success = np.where(scales > 0, -np.expm1(-grid / np.maximum(scales, 1e-290)), 1.0)
        total = np.zeros((size, scales.size))
        for _ in range(self.draws):
            total += rng.geometric(success, size=total.shape)
            total -= rng.geometric(success, size=total.shape)
        if self.family == "tulap":
            total *= grid
            total += np.where(scales > 0, rng.integers(-grid // 2, grid // 2, size=total.shape), 0)
        return total

    def quantile(self, probability: float) -> Array:
        """Smallest whole number whose distribution function reaches ``probability``, per coordinate (m,)."""
        require(0 < probability < 1, "probability", probability, "a number between 0 and 1")
        if self.family not in ("gaussian", "laplace") or self.draws > 1:
            raise NotProvedError("quantiles are offered for a single draw of discrete Gaussian or Laplace noise")
        return np.array([_quantile(self.family, scale, probability) for scale in self.scales])

    def to_dict(self) -> dict[str, Any]:
        """Return the law as a JSON-ready mapping; equal scales are written once with their count."""
        runs = [[scale, sum(1 for _ in same)] for scale, same in groupby(self.scales)]
        name = f"discrete {self.family}" if self.family in ("gaussian", "laplace") else self.family
        return {
            "family": name,
            "scales": runs,
            **({"draws": self.draws} if self.draws > 1 else {}),
            **({"shared": self.shared} if self.shared else {}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> NoiseLaw:
        """Read what `to_dict` wrote."""
        try:
            family = str(stored["family"]).removeprefix("discrete ")
            runs = [(float(scale), count) for scale, count in stored["scales"]]
            if not all(type(count) is int and count > 0 for _, count in runs) or sum(n for _, n in runs) > _LONGEST:
                raise ReleaseFormatError("the noise law has scales with wrong counts")
            scales = tuple(scale for scale, count in runs for _ in range(count))
            return cls(family, scales, stored.get("draws", 1), float(stored.get("shared", 0.0)))  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError) as error:
            raise ReleaseFormatError(f"the noise law cannot be read: {error}") from error


def discrete_masses(family: Family, scale: float) -> tuple[Array, Array]:
    """Return the whole numbers within 60 scales of zero, and their probabilities."""
    reach = int(np.ceil(60 * scale)) + 2
    support = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(support**2) / (2 * scale**2)) if family == "gaussian" else np.exp(-np.abs(support) / scale)
    return support, weights / weights.sum()


@lru_cache(maxsize=2**12)
def _variance(family: Family, scale: float) -> float:
    if scale == 0 or family in CHOICES:
        return 0.0
    if family == "laplace":
        return float(2 * np.exp(-1 / scale) / np.expm1(-1 / scale) ** 2)
    if family == "tulap":
        return float(TULAP_GRID) ** 2 * (_variance("laplace", scale / TULAP_GRID) + 1 / 12)
    if scale > 10:
        return scale**2
    support, masses = discrete_masses(family, scale)
    return float((support**2 * masses).sum())


def _quantile(family: Family, scale: float, probability: float) -> float:
    if scale == 0:
        return 0.0
    if scale < _EXACT_BELOW:
        support, masses = discrete_masses(family, scale)
        index = int(np.searchsorted(np.cumsum(masses), probability - 1e-14))
        return float(support[min(index, support.size - 1)])
    law = stats.norm if family == "gaussian" else stats.laplace
    return float(np.ceil(law.ppf(probability, scale=scale) - 0.5))


@dataclass(frozen=True)
class StageRelease:
    """Noisy integer sums of one stage, or choices.

    Attributes
    ----------
    names : tuple of str, length m
        What each is.
    values : tuple of int, length m
        The noisy sums, or the places that were chosen.
    steps : tuple of float, length m
        Size of one integer step of each.
    law : NoiseLaw
        The noise they carry.
    settings : mapping
        Public, JSON-ready numbers that the stage was built from.
    """

    names: tuple[str, ...]
    values: tuple[int, ...] = field(repr=False)
    steps: tuple[float, ...] = field(repr=False)
    law: NoiseLaw = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def array(self) -> NDArray[np.float64]:
        """The noisy sums in units of the scaled features, (m,)."""
        return np.fromiter(map(mul, self.values, self.steps), np.float64, len(self.values))

    @property
    def noise_variances(self) -> NDArray[np.float64]:
        """Variance of the noise in `array`, (m,)."""
        return np.asarray(self.law.variances * np.asarray(self.steps) ** 2)

    def simulate(self, rng: np.random.Generator) -> StageRelease:
        """Return the same with fresh simulated noise added to these values."""
        drawn = self.law.rvs(1, rng)[0]
        return replace(self, values=tuple(v + int(noise) for v, noise in zip(self.values, drawn, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """Return the stage as a JSON-ready mapping."""
        return {
            "settings": dict(self.settings),
            "law": self.law.to_dict(),
            "sums": [
                {"name": name, "value": value, "step": step}
                for name, value, step in zip(self.names, self.values, self.steps, strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StageRelease:
        """Read what `to_dict` wrote; a `ReleaseFormatError` names the field that is damaged."""
        sums, settings, law = stored["sums"], stored["settings"], NoiseLaw.from_dict(stored["law"])
        names, values, steps = (tuple(one[name] for one in sums) for name in ("name", "value", "step"))
        if not isinstance(settings, dict):
            raise ReleaseFormatError("settings is of a wrong type")
        if len(sums) != len(law.scales):
            raise ReleaseFormatError(f"{len(sums)} sums but {len(law.scales)} noise scales")
        if not all(type(value) is int for value in values):
            raise ReleaseFormatError("value: a noisy sum is not a whole number")
        if not all(type(step) in (int, float) and 1e-150 < step < 1e150 for step in steps):
            raise ReleaseFormatError("step: not a positive number")
        if not are_texts(names):
            raise ReleaseFormatError("name is of a wrong type")
        return cls(names, values, tuple(map(float, steps)), law, settings)
