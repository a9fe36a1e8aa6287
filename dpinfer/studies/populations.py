"""Named populations for studies: bounds that do not clip, and a known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.schema import Real, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.statistics.arrays import Array

__all__ = ["POPULATIONS", "Population", "population"]


_CUT = 2.5


@dataclass(frozen=True)
class Population:
    """A way to draw rows, with public bounds and the coefficients that are true.

    Attributes
    ----------
    name : str
    schema : Schema
        Bounds that no value exceeds.
    generate : callable
        ``generate(rng, n)`` returns a dict of arrays.
    truth : mapping of str to float
        Coefficients of ``formula``; of a single column its mean, as "Intercept".
    formula : str
        The regression, or ``"column ~ 1"``.
    about : str
        One sentence.
    """

    name: str
    schema: Schema
    generate: Callable[[np.random.Generator, int], dict[str, Array]]
    truth: Mapping[str, float]
    formula: str
    about: str


def truncated_normal(rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
    """Draw standard normals cut at 2.5 standard deviations."""
    draws = rng.normal(size=size)
    far = np.abs(draws) > _CUT
    while far.any():
        draws[far] = rng.normal(size=int(far.sum()))
        far = np.abs(draws) > _CUT
    return draws


@dataclass(frozen=True)
class _Regression:
    """Draws regressors of a kind, and a response with normal errors cut at 2.5 standard deviations."""

    regressors: str
    slopes: tuple[float, ...]
    sigma: float = 0.2

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, Array]:
        shape = (len(self.slopes), n)
        x = rng.beta(1.0, 5.0, shape) if self.regressors == "skewed" else rng.uniform(-1.0, 1.0, shape)
        if self.regressors == "collinear":
            x = 0.9 * rng.uniform(-1.0, 1.0, n) + 0.1 * x
        y = np.asarray(self.slopes) @ x + self.sigma * truncated_normal(rng, n)
        return {**{f"x{j}": x[j] for j in range(len(self.slopes))}, "y": y}

    def population(self, name: str, about: str) -> Population:
        ends = np.array([0.0, 1.0]) if self.regressors == "skewed" else np.array([-1.0, 1.0])
        spread = _CUT * self.sigma
        lower = sum(min(slope * ends) for slope in self.slopes) - spread
        upper = sum(max(slope * ends) for slope in self.slopes) + spread
        columns = {f"x{j}": Real(float(ends[0]), 1.0) for j in range(len(self.slopes))}
        truth = {"Intercept": 0.0, **{f"x{j}": slope for j, slope in enumerate(self.slopes)}}
        formula = "y ~ " + " + ".join(f"x{j}" for j in range(len(self.slopes)))
        schema = Schema({**columns, "y": Real(float(lower), float(upper))})
        return Population(name, schema, self, truth, formula, about)


def _draw_age(rng: np.random.Generator, n: int) -> dict[str, Array]:
    return {"age": 100 * rng.beta(*_age_shape(), n)}


def _age_shape() -> tuple[float, float]:
    """Beta shape with mean .43 and standard deviation .1758 on the unit interval."""
    mean, variance = 0.43, 0.1758**2
    total = mean * (1 - mean) / variance - 1
    return mean * total, (1 - mean) * total


def _draw_income(rng: np.random.Generator, n: int) -> dict[str, Array]:
    return {"income": 200_000 * rng.beta(1.2, 6.8, n)}


def _populations() -> dict[str, Population]:
    alternating = tuple(float(sign) * 0.1 for sign in (1, -1, 1, -1, 1))
    listed = [
        Population("age", Schema(age=Real(0, 100)), _draw_age, {"Intercept": 43.0}, "age ~ 1",
                   "Ages on 0-100 with mean 43 and standard deviation 17.58."),
        Population("income", Schema(income=Real(0, 200_000)), _draw_income, {"Intercept": 30_000.0}, "income ~ 1",
                   "Right-skewed incomes on 0-200,000 with mean 30,000."),
        _Regression("uniform", alternating).population("uniform", "Five independent uniform regressors."),
        _Regression("skewed", alternating).population("skewed", "Five right-skewed regressors, Beta(1, 5)."),
        _Regression("collinear", alternating).population("collinear", "Five regressors with correlation .99."),
        _Regression("uniform", (0.5,)).population("one uniform", "One uniform regressor."),
    ]  # fmt: skip
    return {one.name: one for one in listed}


POPULATIONS = _populations()
"""The named populations."""


def population(name: str) -> Population:
    """Return a named population.

    Parameters
    ----------
    name : {"age", "income", "uniform", "skewed", "collinear", "one uniform"}

    Returns
    -------
    Population

    Raises
    ------
    OptionError
        If there is none of that name.

    Examples
    --------
    >>> import numpy as np
    >>> ages = population("age").generate(np.random.default_rng(1), 200_000)["age"]
    >>> round(float(ages.std()), 1)
    17.6
    """
    if name not in POPULATIONS:
        raise OptionError("name", name, POPULATIONS)
    return POPULATIONS[name]
