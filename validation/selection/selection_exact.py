"""Exact probabilities of private choices, what they lose, and how loose a theorem's bound on that is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, special, stats
from scipy.optimize import brentq

from dpinfer.selection.results import accuracy

Array = NDArray[np.float64]


NAMES = {"gumbel": "exponential mechanism", "exponential": "permute-and-flip"}

CANDIDATES = (2, 3, 10, 100)
GAPS = np.geomspace(0.02, 40, 60)
"""How far scores are below the best one, in noise scales."""

TAILS = (0.1, 1.0, 3.0, 5.0)
"""Values of t in theorem 6: the bound holds but for probability exp(-t)."""

VOTES = 100
"""Rows that vote for candidates in shares 1, 1/2, 1/3, ...: scores as they may come, at epsilon = 1."""


def softmax(gaps: Array, scale: float = 1.0) -> Array:
    """Probabilities of the exponential mechanism; gaps (..., d) are how far scores are below the best."""
    return np.asarray(special.softmax(-np.asarray(gaps) / scale, axis=-1))


def flipped(gaps: Array, scale: float = 1.0) -> Array:
    """Probabilities of the largest score plus exponential noise (permute-and-flip), exactly but for rounding.

    With p = exp(-gap / scale) candidate i wins with probability p_i times the integral from 0 to 1 of the product of
    1 - u p_j over all others: a polynomial of degree d - 1, which Gauss-Legendre with d / 2 nodes integrates.
    """
    p = np.exp(-np.asarray(gaps) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(p.shape[-1] // 2 + 1)
    u = 0.5 * (nodes + 1)
    logs = np.log1p(-u[:, None] * p[..., None, :])
    others = np.exp(logs.sum(axis=-1, keepdims=True) - logs)
    return np.asarray(p * np.einsum("k,...kd->...d", 0.5 * weights, others))


EXACT = {"gumbel": softmax, "exponential": flipped}


def gumbel_max(gaps: Array) -> Array:
    """Probabilities (d,) of the largest score plus Gumbel noise of scale 1, by numerical integration."""
    shifted = -np.asarray(gaps)

    def winner(place: int) -> float:
        rest = np.delete(shifted, place)

        def density(x: float) -> float:
            return float(np.exp(stats.gumbel_r.logpdf(x - shifted[place]) + stats.gumbel_r.logcdf(x - rest).sum()))

        return float(integrate.quad(density, -6, 45, points=[0, 3, 8], epsabs=1e-12, limit=400)[0])

    return np.array([winner(place) for place in range(len(shifted))])


def shapes(candidates: int) -> dict[str, Array]:
    """Vectors of gaps (v, d), in noise scales: everything for two and three candidates, some shapes for more."""
    if candidates == 2:
        return {"all": np.stack([np.zeros(len(GAPS)), GAPS], axis=1)}
    if candidates == 3:
        return {"all": np.array([(0.0, first, second) for first, second in product([0.0, *GAPS], GAPS)])}
    ones, zero = np.ones(candidates - 1), np.zeros((len(GAPS), 1))
    half = (np.arange(candidates) >= candidates // 2).astype(float)
    random = np.sort(np.random.default_rng(5).random((len(GAPS), candidates - 1)), axis=1)
    return {
        "one best": np.hstack([zero, np.outer(GAPS, ones)]),
        "half of them best": np.outer(GAPS, half),
        "evenly spaced": np.outer(GAPS, np.linspace(0, 1, candidates)),
        "random": np.hstack([zero, GAPS[:, None] * random]),
    }


def losses() -> pd.DataFrame:
    """Expected errors in noise scales: a row for each vector.

    At a `PureDP` price both noises have one scale. At a Gaussian price (ZCDP, GDP) the exponential mechanism needs
    half of it.
    """
    rows = []
    for candidates in CANDIDATES:
        for shape, vectors in shapes(candidates).items():
            means = [(vectors * found).sum(axis=1) for found in (softmax(vectors), flipped(vectors))]
            halved = (vectors * softmax(vectors, 0.5)).sum(axis=1)
            rows += [
                {
                    "candidates": candidates,
                    "scores": shape,
                    "gap": gap,
                    "exponential": one,
                    "flip": two,
                    "halved": three,
                }
                for gap, one, two, three in zip(vectors.max(axis=1), *means, halved, strict=True)
            ]
    return pd.DataFrame(rows)


def loss_table(every: pd.DataFrame) -> pd.DataFrame:
    """Largest excess and the range of ratios, by number of candidates and shape."""
    rows = []
    for (candidates, shape), part in every.groupby(["candidates", "scores"], sort=False):
        seen = part[part["exponential"] > 1e-12]
        pure, gaussian = seen["flip"] / seen["exponential"], seen["halved"] / seen["flip"]
        rows.append(
            {
                "candidates": candidates,
                "scores": shape,
                "vectors": len(part),
                "largest excess of permute-and-flip": float((part["flip"] - part["exponential"]).max()),
                "least ratio": float(pure.min()),
                "largest ratio": float(pure.max()),
                "exponential over permute-and-flip, Gaussian price": float(gaussian.max()),
            }
        )
    return pd.DataFrame(rows)


# Theorem 6


def worst(candidates: int, gap: float, law: str) -> float:
    """Probability that the choice is ``gap`` noise scales or more below the best, for the worst scores.

    One candidate is the best, and all others are just so far below it.
    """
    gaps = np.concatenate([[0.0], np.full(candidates - 1, gap)])
    return float(EXACT[law](gaps)[1:].sum())


def least_gap(candidates: int, beta: float, law: str) -> float:
    """Smallest bound that can hold, in noise scales: its worst case has probability beta."""
    if worst(candidates, 0.0, law) <= beta:
        return 0.0
    return float(brentq(lambda gap: worst(candidates, gap, law) - beta, 0.0, 100.0))


def theorem() -> pd.DataFrame:
    """Theorem 6 at sensitivity 1 and epsilon 1 (noise of scale 2), beside exact probabilities and sharper bounds."""
    scale, rows = 2.0, []
    for candidates, t in product(CANDIDATES, TAILS):
        stated = 4 * (np.log(candidates) + t)
        votes = VOTES / np.arange(1, candidates + 1)
        votes *= VOTES / votes.sum()
        gaps = votes[0] - votes
        for law in EXACT:
            beta = float(np.exp(-t))
            sharp = accuracy(candidates, scale, law, beta)
            least = least_gap(candidates, beta, law) * scale
            rows.append(
                {
                    "mechanism": NAMES[law],
                    "candidates": candidates,
                    "t": t,
                    "exp(-t)": beta,
                    "theorem 6": stated,
                    "accuracy(theorem6)": accuracy(candidates, scale, law, beta, "theorem6"),
                    "accuracy(sharp)": sharp,
                    "least possible": least,
                    "worst tail, theorem 6": worst(candidates, stated / scale, law),
                    "votes' tail, theorem 6": float(EXACT[law](gaps, scale)[gaps >= stated].sum()),
                    "worst tail, sharp": worst(candidates, sharp / scale, law) if sharp > 0 else np.nan,
                }
            )
    return pd.DataFrame(rows)


# Whether noise gives the exponential mechanism


def noise_against_mechanism() -> tuple[float, float, float]:
    """Largest difference of probabilities between noise and mechanism: exponential, and where; Gumbel."""
    worst_of, at = 0.0, 0.0
    for candidates in CANDIDATES:
        for vectors in shapes(candidates).values():
            found = np.abs(flipped(vectors) - softmax(vectors)).max(axis=1)
            if found.max() > worst_of:
                worst_of, at = float(found.max()), float(vectors[found.argmax()].max())
    few = [vectors[place] for count in (2, 3, 10) for vectors in shapes(count).values() for place in (5, 25, 40)]
    gumbel = max(float(np.abs(gumbel_max(gaps) - softmax(gaps)).max()) for gaps in few)
    return worst_of, at, gumbel
