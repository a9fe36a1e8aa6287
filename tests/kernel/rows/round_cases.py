"""Rounds of Newton's method as a procedure would ask for them: links, their prices, and frames at random."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special, stats

from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import Bins, Interpolant, RoundCounts, RoundFrame, RoundSum, Term
from dpinfer.schema import Boolean, Real, Schema
from dpinfer.schema.basis import basis_of
from dpinfer.schema.grid import UNIT

SCHEMA = Schema(x=Real(-3, 11), u=Real(0, 1), w=Real(-1, 1), b=Boolean(), y=Boolean(), t=Real(-1, 1), k=Real(0, 32))
REGRESSORS = ("x", "u", "w", "b", "x * u")
POINTS = np.linspace(-9, 6, 601)
GOLDEN = 11.09  # below the fifth power of the golden ratio, 11.0902


def table(function, low, high, steps=4096, below=None, above=None):
    """A function as a table; beyond it the values at its ends."""
    values = np.asarray(function(np.linspace(low, high, steps + 1)), dtype=np.float64)
    ends = [float(values[0]) if below is None else below, float(values[-1]) if above is None else above]
    return Interpolant(float(low), float(high), values, *ends)


def flat(value):
    return Interpolant(0.0, 1.0, np.full(2, value), value, value)


def clipped(bound):
    return Interpolant(-bound, bound, np.array([-bound, bound]) / bound, -1.0, 1.0)


@dataclass(frozen=True)
class Link:
    """A mean and its derivative, and which price of the Hessian is free beside the score at price 1."""

    mean: Interpolant
    slope: Interpolant
    free: float


def _cloglog(eta):
    return -np.expm1(-np.exp(eta))


LINKS = {
    "logit": Link(
        table(special.expit, -20, 20), table(lambda t: special.expit(t) * special.expit(-t), -20, 20), GOLDEN
    ),
    "probit": Link(table(special.ndtr, -9, 9), table(stats.norm.pdf, -9, 9), 4.2),
    "cloglog": Link(table(_cloglog, -20, 4), table(lambda t: np.exp(t - np.exp(t)), -20, 4), 3.42),
}


def maps_of(width, size=None, rng=None, scale=1.0, theta=1.0, response=(1, 1)):
    """Random maps (q + 2, d) in steps of 2^-24, of features of which the last is the response; and their bits.

    A Boolean response is -1 or 1 as a feature: half of it and of the constant is 0 or 1.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    size = width - 1 if size is None else size
    maps = np.zeros((size + 2, width), dtype=np.int64)
    maps[:size, :-1] = np.rint(rng.normal(size=(size, width - 1)) * scale * 2**24)
    maps[size, :-1] = np.rint(rng.normal(size=width - 1) * theta * 2**24)
    maps[-1, [0, -1]] = response
    return maps, (24,) * (size + 1) + ((1,) if response == (1, 1) else (0,))


def features(response="y", regressors=REGRESSORS):
    return Features(basis_of((*regressors, response), SCHEMA))


def binary(link="logit", meat=0.0, norm="l2", ratio=0.7, price=None, rng=None, **maps):
    """A round of binary responses: score, Hessian and, at a share of the price, the products of scores."""
    one = LINKS[link]
    asked = features()
    numbers, bits = maps_of(asked.basis.width, rng=rng, **maps)
    frame = RoundFrame(asked, numbers, bits, mean=one.mean, norm=norm, ratio=ratio)
    slope, free = one.slope, (11.9 if meat and link == "logit" else one.free)
    if norm == "l1":
        free = (1.0 if link == "logit" else 0.5) + meat
        if link != "logit":  # not free: the slope is damped to twice what is left of the price
            ends = np.linspace(-9, 9, 4097)
            left = 2 * (1 - np.maximum(one.mean(ends), 1 - one.mean(ends)))
            slope = Interpolant(-9.0, 9.0, np.minimum(one.slope(ends), left), 0.0, 0.0)
    over = ratio if norm == "l1" else 1.0
    terms = [
        Term("score", "vector", 1.0 - meat, clipped(1.0)),
        Term("hessian", "matrix", (free if price is None else price) / over, slope, "linear"),
    ]
    return RoundSum(frame, (*terms, *([Term("meat", "outer", meat / over, clipped(1.0))] if meat else [])))


def start(share=0.4, rng=None, scale=1.0):
    """The first round, at theta = 0: every residual is one half, every weight one quarter."""
    asked = features()
    maps, bits = maps_of(asked.basis.width, rng=rng, scale=scale, theta=0.0)
    terms = (
        Term("score", "vector", 4 * share, clipped(1.0)),
        Term("hessian", "matrix", 16 * (1 - share), flat(0.25), "linear"),
    )
    return RoundSum(RoundFrame(asked, maps, bits, mean=LINKS["logit"].mean), terms)


def robust(rng=None, scale=1.0, c=0.1, times=4, norm="l2"):
    """Clipped least squares: inliers have a Gram matrix; what is beyond c counts by sign, excess and square."""
    asked = features("t")
    maps, bits = maps_of(asked.basis.width, rng=rng, scale=scale, theta=0.1, response=(0, 1))
    maps[-1] = np.where(np.arange(maps.shape[1]) == maps.shape[1] - 1, 2**24, -maps[-2])
    maps[-2] = 0
    bits = (*bits[:-1], 24)
    high, steps = times * c, 2 * times * 64
    excess = table(lambda r: np.sign(r) * np.maximum(np.abs(r) - c, 0) / (high - c), -high, high, steps)
    square = table(lambda r: np.maximum(r * r - c * c, 0) / (high**2 - c * c), -high, high, steps)
    inside = Interpolant(-c, c, np.ones(2), 0.0, 0.0)
    beyond = Interpolant(-c, c, np.zeros(2), -1.0, 1.0)
    terms = (
        Term("score", "vector", 0.64, clipped(c)),
        Term("gram", "matrix", 0.2, inside),
        Term("meat", "outer", 0.16, clipped(c)),
        Term("signs", "vector", 0.09, beyond),
        Term("excess", "number", 0.09, excess),
        Term("squares", "mass", 0.02, square, power=2),
    )
    return RoundSum(RoundFrame(asked, maps, bits, norm=norm), terms)


@cache
def _poisson(k):
    """Expectation of the clipped residual by the linear predictor, and its slope."""
    numbers = np.arange(900)[:, None]
    law = stats.poisson.pmf(numbers, np.exp(POINTS))
    residual = (numbers - np.exp(POINTS)) / np.exp(POINTS / 2)
    psi = np.clip(residual, -k, k)
    return (law * psi).sum(0), np.exp(POINTS) * (law * psi * residual).sum(0)


def counts(rng=None, scale=1.0, k=1.5):
    """Poisson: Pearson residuals clipped at k and centred, with the expected slope of what they add."""
    asked = features("k")
    maps, bits = maps_of(asked.basis.width, rng=rng, scale=scale, theta=0.5, response=(1, 1))
    maps[-1, [0, -1]] = 16
    bits = (*bits[:-1], 0)
    center, slope = _poisson(k)
    most = k + 0.1514
    frame = RoundFrame(
        asked,
        maps,
        bits,
        mean=table(np.exp, -9, 6),
        inverse_sd=table(lambda t: np.exp(-t / 2), -9, 6),
        lift=table(lambda t: np.exp(t / 2), -9, 6),
    )
    terms = (
        Term(
            "score",
            "vector",
            0.7,
            Interpolant(-k, k, np.array([-k, k]) / most, -k / most, k / most),
            center=Interpolant(-9.0, 6.0, center / most, float(center[0] / most), float(center[-1] / most)),
        ),
        Term("hessian", "matrix", 0.2, Interpolant(-9.0, 6.0, slope, float(slope[0]), float(slope[-1])), "linear"),
        Term("response", "number", 0.05, clipped(8.0), "difference", power=0),
        Term("mean", "mass", 0.05, table(lambda t: np.minimum(np.exp(t), 8) / 8, -9, 6), "linear", power=0),
    )
    return RoundSum(frame, terms)


def smooth(psi, slope, low, high, free, rng=None, scale=1.0, norm="l2"):
    """A smooth score of a residual, such as Huber's by tanh or a quantile's, with its Hessian."""
    asked = features("t")
    maps, bits = maps_of(asked.basis.width, rng=rng, scale=scale, theta=0.1, response=(0, 1))
    terms = (
        Term("score", "vector", 1.0, table(psi, low, high)),
        Term("hessian", "matrix", free, table(slope, low, high)),
    )
    mean = table(lambda t: t, -256, 256, 512)
    return RoundSum(RoundFrame(asked, maps, bits, mean=mean, norm=norm), terms)


def huber(c=0.1, norm="l2", **options):
    return smooth(
        lambda r: np.tanh(r / c),
        lambda r: 1 - np.tanh(r / c) ** 2,
        -12 * c,
        12 * c,
        1.0 if norm == "l2" else 0.5,
        norm=norm,
        **options,
    )


def quantile(q=0.25, free=0.848, h=0.05, **options):
    most = max(q, 1 - q)
    return smooth(
        lambda r: (q - special.expit(-r / h)) / most,
        lambda r: 4 * special.expit(r / h) * special.expit(-r / h),
        -30 * h,
        30 * h,
        free,
        **options,
    )


def weighted(make, **options):
    """A round of rows with survey weights, of which some are cut to 0 and to 1, and with a label."""
    rng = options.get("rng") or np.random.default_rng(1)
    rows = make(**options)
    more = np.rint(rng.normal(size=(2, rows.frame.maps.shape[1])) * 2**23).astype(np.int64)
    more[0, 0] = 2**23
    maps, bits = np.vstack([rows.frame.maps, more]), (*rows.frame.bits, 24, 20)
    return replace(rows, frame=replace(rows.frame, maps=maps, bits=bits, weighted=True, labels=1))


def changes(**options):
    """Sums at the estimate: rows, slopes, and what means change by, of a label."""
    rows = weighted(binary, **options)
    link = LINKS["logit"]
    change = table(lambda t: (special.expit(t + 1) - special.expit(t)) / np.tanh(0.25), -20, 20)
    terms = (
        Term("rows", "mass", 0.2, flat(1.0)),
        Term("slope", "mass", 6.4, link.slope, "linear"),
        Term("change", "mass", 0.4, change, "label"),
    )
    if options.get("norm") == "l1":
        terms = (terms[0], replace(terms[1], price=1.6), terms[2])
    return replace(rows, terms=terms)


ROUNDS = {
    "logit": binary,
    "logit with products": lambda **o: binary(meat=0.2, **o),
    "logit, L1": lambda **o: binary(norm="l1", **o),
    "logit with products, L1": lambda **o: binary(norm="l1", meat=0.2, **o),
    "probit": lambda **o: binary("probit", **o),
    "probit, L1": lambda **o: binary("probit", norm="l1", **o),
    "cloglog": lambda **o: binary("cloglog", **o),
    "logit at zero": start,
    "least squares": robust,
    "least squares, L1": lambda **o: robust(norm="l1", **o),
    "Huber": huber,
    "Huber, L1": lambda **o: huber(norm="l1", **o),
    "median": lambda **o: quantile(0.5, 0.999, **o),
    "quartile": quantile,
    "Poisson": counts,
    "logit, weighted": lambda **o: weighted(binary, **o, meat=0.2),
    "logit, weighted, L1": lambda **o: weighted(binary, **o, meat=0.2, norm="l1"),
    "Poisson, weighted": lambda **o: weighted(counts, **o),
    "margins": changes,
    "margins, L1": lambda **o: changes(norm="l1", **o),
}
"""Right prices: no row pays more than 1."""

WRONG = {
    "logit, Hessian too dear": lambda **o: binary(price=16.0, **o),
}
"""Prices that some rows cannot pay."""


def _frame_of(features, norm="l2"):
    width = features.basis.width
    maps = np.random.default_rng(width).integers(-(2**24), 2**24, (width + 2, width))
    return RoundFrame(features, maps, (24,) * (width + 2), norm=norm, ratio=0.8)


def round_of(features, norm="l2"):
    """A round of every kind of term, of any features."""
    terms = Term("score", "vector", 0.5), Term("gram", "matrix", 2.0), Term("meat", "outer", 0.3)
    return RoundSum(_frame_of(features, norm), (*terms, Term("tail", "number", 0.1), Term("square", "mass", 0.1)))


def counts_of(features):
    """Counts by size and by a coordinate, of any features."""
    places = Bins("size", "size", 2.0 ** np.arange(4)), Bins("z", "coordinate", np.linspace(-1, 1, 8)[1:], 3)
    return RoundCounts(_frame_of(features), places)


def integer_rows(rows, size, rng):
    """Integer features (d, m) of rows as cells can make them: numbers, many at their ends; some rows are dropped."""
    width = rows.frame.features.basis.width
    found = np.rint(rng.uniform(-1, 1, (width, size)) * UNIT)
    ends = rng.random((width, size)) < 0.4
    found[ends] = UNIT * rng.choice([-1.0, 1.0], ends.sum())
    found[0] = UNIT
    if rows.frame.features.basis.blocks[-1].expression.text == "y":
        found[-1] = UNIT * rng.choice([-1.0, 1.0], size)
    found[:, rng.random(size) < 0.02] = 0
    return found
