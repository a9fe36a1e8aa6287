"""Fits of many slices of rows at once: the estimates of statsmodels one by one, many times sooner."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import statsmodels.api as sm

Derivatives = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


_STEPS = 30
_SETTLED = 1e-10
_FIRTH_STEPS, _FARTHEST = 100, 3.0
"""Steps to Firth's estimate, and by how much one may change a linear predictor."""

_REWEIGHED = 1000
_NEAR, _CLOSE = 1e-6, 1e-6
"""Of median regression, as in statsmodels: the least residual that weighs, and the change that ends the steps."""


def stacked_newton(model: type, y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Fit a logit or a Poisson regression to many slices of rows (k, p), as `newton` one by one.

    NaN where steps do not settle.
    """
    table, answer, used = slices(y, x, starts, stops)
    params = np.zeros((len(starts), x.shape[1]))
    if model is sm.Poisson:
        params[:, 0] = np.log(np.maximum(answer.sum(axis=1), 0.5) / np.maximum(used.sum(axis=1), 1))

    def derivatives(params: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        part = table[left]
        eta = (part @ params[..., None])[..., 0]
        mean = np.exp(eta) if model is sm.Poisson else 1 / (1 + np.exp(-eta))
        weight = (mean if model is sm.Poisson else mean * (1 - mean)) * used[left]
        score = ((answer[left] - mean) * used[left])[:, None, :] @ part
        return score[:, 0], np.swapaxes(part * weight[..., None], 1, 2) @ part, np.abs(eta).max(axis=1)

    return _newton_steps(params, derivatives)


def stacked_firth(y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Fit a logit to many slices of rows (k, p) by Firth's penalised likelihood, as `firth` one by one.

    NaN where steps do not settle.
    """
    table, answer, used = slices(y, x, starts, stops)
    params, left = np.zeros((len(starts), x.shape[1])), np.arange(len(starts))
    found = np.full(params.shape, np.nan)
    for _ in range(_FIRTH_STEPS):
        if not left.size:
            break
        part = table[left]
        mean = 1 / (1 + np.exp(-(part @ params[left][..., None])[..., 0]))
        weight = mean * (1 - mean) * used[left]
        information = np.swapaxes(part * weight[..., None], 1, 2) @ part
        scale = np.sqrt(np.maximum(np.diagonal(information, axis1=1, axis2=2), 1e-300))
        scaled = information / (scale[:, :, None] * scale[:, None, :])
        good = np.linalg.eigvalsh(scaled)[:, 0] > 1e-12
        left, part, mean, weight, information = left[good], part[good], mean[good], weight[good], information[good]
        inverse = np.linalg.inv(information)
        leverage = weight * ((part @ inverse) * part).sum(axis=2)
        score = ((answer[left] - mean + leverage * (0.5 - mean)) * used[left])[:, None, :] @ part
        step = (inverse @ score[:, 0][..., None])[..., 0]
        reach = np.abs((part @ step[..., None])[..., 0]).max(axis=1)
        step *= np.minimum(1.0, _FARTHEST / np.maximum(reach, _FARTHEST))[:, None]
        params[left] += step
        done = np.abs(step).max(axis=1) <= _SETTLED * np.maximum(np.abs(params[left]).max(axis=1), 1.0)
        found[left[done]] = params[left[done]]
        left = left[~done]
    return found


def stacked_multinomial(y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Fit multinomial logits of the outcomes 0, 1, 2, ... to many slices of rows (k, (J - 1) p); the first is the base.

    NaN where steps do not settle.
    """
    table, answer, used = slices(y, x, starts, stops)
    others = np.arange(1, int(y.max()) + 1)
    met = (answer[..., None] == others) & used[..., None]  # (k, m, J - 1)
    width = x.shape[1]

    def derivatives(params: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        part, kept = table[left], used[left][..., None]
        eta = part @ np.swapaxes(params.reshape(len(left), len(others), width), 1, 2)
        raised = np.exp(eta)
        mean = raised / (1 + raised.sum(axis=2, keepdims=True)) * kept
        score = np.swapaxes(met[left] - mean, 1, 2) @ part  # (k, J - 1, p)
        blocks = mean[..., None] * (np.eye(len(others)) - mean[..., None, :])  # (k, m, J - 1, J - 1)
        curvature = np.einsum("kmab,kmi,kmj->kaibj", blocks, part, part, optimize=True)
        size = len(others) * width
        return score.reshape(-1, size), curvature.reshape(-1, size, size), np.abs(eta).max(axis=(1, 2))

    return _newton_steps(np.zeros((len(starts), len(others) * width)), derivatives)


def stacked_median(y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Fit median regressions to many slices of rows (k, p) by reweighted least squares (Schlossmacher 1973)."""
    table, answer, used = slices(y, x, starts, stops)
    weight = used.astype(float)
    found = np.full((len(starts), x.shape[1]), np.nan)
    before = np.ones_like(found)
    left = np.flatnonzero(used.sum(axis=1) > x.shape[1])
    for _ in range(_REWEIGHED):
        if not left.size:
            break
        weighed = table[left] * weight[left][..., None]
        moments, products = np.swapaxes(weighed, 1, 2) @ table[left], (answer[left][:, None, :] @ weighed)[:, 0]
        params = np.linalg.solve(moments, products[..., None])[..., 0]
        residual = answer[left] - (table[left] @ params[..., None])[..., 0]
        weight[left] = used[left] / np.maximum(np.abs(residual), _NEAR)
        done = np.abs(params - before[left]).max(axis=1) <= _CLOSE
        before[left] = params
        found[left] = params  # what does not settle is left where it is, as statsmodels does
        left = left[~done]
    return found


def slices(
    y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slices of rows side by side: regressors (k, m, p) and response (k, m), zero beyond a slice, and where one is."""
    sizes = stops - starts
    place = np.arange(sizes.max())
    used = place < sizes[:, None]
    rows = np.minimum(starts[:, None] + place, len(y) - 1)
    return x[rows] * used[..., None], y[rows] * used, used


def _newton_steps(params: np.ndarray, derivatives: Derivatives) -> np.ndarray:
    """Maximise many likelihoods (k, p), given scores, information and the largest predictor of some of them."""
    left = np.arange(len(params))
    found = np.full(params.shape, np.nan)
    for _ in range(_STEPS):
        if not left.size:
            break
        with np.errstate(all="ignore"):
            score, information, reach = derivatives(params[left], left)
            good = np.isfinite(information).all(axis=(1, 2)) & (reach < 30)
        scale = np.sqrt(np.maximum(np.diagonal(information, axis1=1, axis2=2), 1e-300))
        scaled = information / (scale[:, :, None] * scale[:, None, :])
        scaled = np.where(good[:, None, None], scaled, np.eye(params.shape[1]))
        good &= np.linalg.eigvalsh(scaled)[:, 0] > 1e-6
        left = left[good]
        step = np.linalg.solve(information[good], score[good][..., None])[..., 0]
        params[left] += step
        done = np.abs(step).max(axis=1) <= _SETTLED * np.maximum(np.abs(params[left]).max(axis=1), 1.0)
        found[left[done]] = params[left[done]]
        left = left[~done]
    return found
