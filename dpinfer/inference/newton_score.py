"""Tests from the combined score of least squares that stay valid where noise is large.

Notes
-----
The score of a linear model, g(theta) = total - hessian @ theta, has noise whose covariance V(theta) grows with theta,
and where noise is large its Hessian tells little of most coefficients. A test of some of them then needs the least of
g' V^-1 g over all theta that meet the restriction, the statistic of a subset after Anderson and Rubin. Where V is a
number times one matrix, and noise is normal, it is at most chi-squared with as many degrees of freedom as restrictions,
however weakly the other coefficients are identified (Guggenberger, Kleibergen, Mavroeidis and Chen, 2012, Econometrica
80); here V is nearly that.

For V held fixed that least is reached at

    theta = root - hessian^-1 V W L,    L = (W'V W + G)^-1 (C (root + move) - value),    W = hessian^-T C',

with G the covariance of what was given back. V is taken there again, some rounds; every point on the way meets the
restriction, so that the least that was met is never below the least of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.inference.newton_rounds import Sums
    from dpinfer.inference.newton_tail import Tail
    from dpinfer.numerics.arrays import Array

__all__ = ["LinearScore"]

_ROUNDS = 10

_LEAST, _ROUNDING, _SMALLEST = 1e-6, 1e-12, 1e-30
"""Least size of an eigenvalue of the whitened Hessian: in units of its noise, of the largest, and at all."""


@dataclass(frozen=True, eq=False)
class LinearScore:
    """The combined score of rounds of a linear model.

    Attributes
    ----------
    sums : Sums
        Without a response.
    weights : ndarray (T,)
        Of the rounds.
    meat : ndarray (p, p)
        Covariance of the sampled score.
    tail : Tail
        What is added to the zero of the score.
    """

    sums: Sums
    weights: Array
    meat: Array
    tail: Tail

    @cached_property
    def _inverse(self) -> Array:
        """Of the combined Hessian (p, p) as noise left it, whose eigenvalues may be negative, but not next to zero."""
        whiten = np.linalg.pinv(self.sums.spreads[-1])
        white = whiten @ np.tensordot(self.weights, self.sums.hessians, 1) @ whiten.T
        values, vectors = np.linalg.eigh(0.5 * (white + white.T))
        noise = float(np.linalg.norm(self.weights * self.sums.scales[1]))
        least = max(_LEAST * noise, _ROUNDING * float(np.abs(values).max()), _SMALLEST)
        kept = np.where(np.abs(values) < least, least, values)
        return np.asarray(whiten.T @ (vectors / kept) @ vectors.T @ whiten)

    @cached_property
    def _root(self) -> Array:
        """Where the score is zero (p,)."""
        moved = np.einsum("tpr,tr->tp", self.sums.hessians, self.sums.points)
        return np.asarray(self._inverse @ (self.weights @ (self.sums.scores + moved)))

    def _covariance(self, thetas: Array) -> Array:
        """Covariance (S, p, p) of the score at coefficients (S, p)."""
        return self.sums.noises(thetas, np.ones((len(self.weights), len(thetas))), self.weights) + self.meat

    def _given_back(self, contrasts: Array) -> Array:
        return np.asarray(contrasts @ (self.tail.noise + self.tail.sampling) @ contrasts.T)

    def centre(self, contrast: Array) -> tuple[float, float]:
        """Value of a contrast (p,) at which its statistic is zero, and its standard deviation there."""
        weights = self._inverse.T @ contrast
        found = weights @ self._covariance(self._root[None])[0] @ weights
        found += self._given_back(contrast[None])[0, 0]
        return float(contrast @ (self._root + self.tail.move)), float(np.sqrt(max(found, 1e-300)))

    def statistics(self, contrasts: Array, values: Array) -> Array:
        """Statistics (S,) of ``contrasts @ params = values[s]``, for contrasts (k, p) and values (S, k)."""
        weights = self._inverse.T @ contrasts.T
        distance = contrasts @ (self._root + self.tail.move) - values
        given_back = self._given_back(contrasts)
        thetas, least = np.broadcast_to(self._root, (len(values), len(self._root))), np.full(len(values), np.inf)
        for _ in range(_ROUNDS):
            acted = self._covariance(thetas) @ weights
            spread = weights.T @ acted + given_back
            solved = np.einsum("skl,sl->sk", np.linalg.pinv(spread, hermitian=True), distance)
            score = np.einsum("spk,sk->sp", acted, solved)
            thetas = self._root - score @ self._inverse.T
            met = np.einsum("sp,spq,sq->s", score, np.linalg.pinv(self._covariance(thetas), hermitian=True), score)
            least = np.minimum(least, met + np.einsum("sk,kl,sl->s", solved, given_back, solved))
        return np.asarray(np.maximum(least, 0.0))
