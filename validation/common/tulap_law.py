"""The law of Tulap noise in closed form, which sums over counts by definition are made of."""

import numpy as np

from dpinfer.release.laws import TULAP_GRID, NoiseLaw


def tulap_cdf(x, scale):
    """P(T <= x) for discrete Laplace noise of a scale plus a uniform on (-1/2, 1/2).

    For ``x <= 1/2`` with m the nearest integer and ``q = exp(-1 / scale)`` it is
    ``q^(-m) (q + (1 - q)(x - m + 1/2)) / (1 + q)``; elsewhere ``1 - cdf(-x)`` (Awan & Slavkovic 2018).
    """
    value = np.asarray(x, dtype=float)
    rate = 1 / max(scale, 1e-300)
    below = np.clip(-np.abs(value), -1e4 * max(scale, 1.0), 0.0)
    nearest = np.rint(below)
    q, share = np.exp(-rate), below - nearest + 0.5
    steps = np.where(nearest < 0, np.maximum(nearest * rate, -1e4), 0.0)
    tail = np.exp(steps) * (q - np.expm1(-rate) * share) / (1 + q)
    return np.where(value > 0, 1 - tail, tail)


def tulap_sf(x, scale):
    """P(T >= x), accurate in the upper tail."""
    return tulap_cdf(-np.asarray(x, dtype=float), scale)


def released(scale):
    """Law and step of a count with Tulap noise of a scale in counts, as functions of noisy counts take them."""
    return {"law": NoiseLaw("tulap", (TULAP_GRID * scale,)), "step": 1 / TULAP_GRID}
