"""Noisy sums of simulated rows, their fits, and intervals and tests of one parameter."""

import numpy as np

import dpinfer as dpi
from dpinfer.families.distributions import Bernoulli, Binomial, Geometric, Poisson
from dpinfer.families.estimation import SumNoise, clamped_problem, estimate, take
from dpinfer.families.inference import batch, intervals, pvalues
from dpinfer.release.laws import NoiseLaw
from dpinfer.schema import Integer, Real, Schema

STEP = 2.0**-19


def pose(family, lower, upper, column="v"):
    """A family on the bounds of a column."""
    whole = isinstance(family, Bernoulli | Binomial | Poisson | Geometric)
    return clamped_problem(family, column, Schema({column: (Integer if whole else Real)(lower, upper)}))


def draw(problem, theta, n, replicates, seed, *, scale=0.0, count_scale=0.0, family="gaussian"):
    """Noisy sums of simulated rows as values of releases, and the law and steps of their noise."""
    rng = np.random.default_rng(seed)
    sums = problem.features(problem.sample(np.array(theta), (replicates, n), rng)).sum(axis=1)
    width = sums.shape[1]
    law = NoiseLaw(family, (count_scale / STEP, *[scale / STEP] * width))
    steps = (STEP,) * (width + 1)
    values = np.column_stack([np.full(replicates, float(n)), sums]) + law.rvs(replicates, rng) * np.array(steps)
    return values, law, steps


def fitted(values, *, problem, law, steps, target="population"):
    """Fits of releases of the count and the sums (R, 1 + k)."""
    variances = law.variances * np.asarray(steps) ** 2
    noise = SumNoise(variances[1:], float(variances[0]), law.family == "laplace", target == "population")
    return estimate(problem, noise, values[:, 1:], values[:, 0])


def batched(values, *, method="auto", contrasts=None, **drawn):
    """Inference from many releases at once, every 95% interval and p-value."""
    return batch(fitted(values, **drawn), alpha=0.05, method=method, contrasts=contrasts, tests=True)


def interval(fit, index, alpha, method="score"):
    """Intervals of one parameter (R, 2)."""
    row = np.eye(fit.eta.shape[1])[[index]]
    return intervals(fit, row, np.array([index]), alpha, method)[:, 0]


def pvalue(fit, index, values, method="score"):
    """P-values (R,) of one parameter, by a tested value for each release."""
    row, each = np.eye(fit.eta.shape[1])[[index]], np.broadcast_to(values, len(fit.eta))
    one = [take(fit, np.array([place])) for place in range(len(each))]
    return np.array(
        [pvalues(a, row, np.array([index]), each[[k]], method)[0, 0] for k, a in enumerate(one)], dtype=np.float64
    )


# Questions about columns that each family suits

COLUMNS = {
    "b": dpi.Boolean(),
    "i": Integer(0, 1),
    "m": Integer(0, 10),
    "k": Integer(0, 20),
    "w": Real(0, 30),
    "p": Real(0.25, 16),
    "x": Real(-5, 5),
    "y": Real(0, 8),
    "z": Real(-1, 3),
    "q": Real(0.02, 0.97),
    "g": dpi.Category(["a", "b", "c"]),
}
SCHEMA = Schema(COLUMNS)
OWN = dpi.Family(
    "weighted",
    parameters={"shape": (0, np.inf), "rate": (0, np.inf)},
    statistics=("log(x)", "x"),
    log_density=lambda x, shape, rate: (shape - 1) * np.log(x) - rate * x,
    support=(0, np.inf),
)
KINDS = {
    "bernoulli": dpi.expfam("b", family="bernoulli"),
    "bernoulli of 0 and 1": dpi.expfam("i", family="bernoulli"),
    "binomial": dpi.expfam("m", family=dpi.Binomial(12)),
    "poisson": dpi.expfam("k", family="poisson"),
    "geometric where": dpi.expfam("k", family="geometric", where="x > -2"),
    "exponential": dpi.expfam("w", family="exponential"),
    "gamma": dpi.expfam("p", family="gamma"),
    "normal": dpi.expfam("x", family="normal"),
    "normal where": dpi.expfam("y", family="normal", where="b | (y < 6)"),
    "normal of the data": dpi.expfam("x", family="normal", target="data"),
    "lognormal": dpi.expfam("p", family="lognormal"),
    "beta": dpi.expfam("q", family="beta"),
    "own": dpi.expfam("p", family=OWN),
    "two normals": dpi.expfam(["x", "y"], family="normal"),
    "three normals where": dpi.expfam(["x", "y", "z"], family="normal", where="k <= 15"),
    "two normals of the data": dpi.expfam(["y", "z"], family="normal", target="data"),
    "categorical": dpi.expfam("g", family="categorical"),
}
