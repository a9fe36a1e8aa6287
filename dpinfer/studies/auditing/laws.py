"""Samplers against their probability mass functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import integrate, special, stats

from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.release.laws import TULAP_GRID, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["LawTest", "bins_of", "choice_tests", "drawn", "law_tests", "scales_of", "shares_pvalue"]

_BINS = 32
_EXACT_BELOW = 1000.0
"""Scale up to which probabilities are summed one by one; above it the continuous law is off by less than 1e-6."""

_REMAINDERS = 8


@dataclass(frozen=True, slots=True)
class LawTest:
    """A test that draws follow their law.

    Attributes
    ----------
    what : str
    pvalue : float
    """

    what: str
    pvalue: float


def scales_of(laws: Sequence[NoiseLaw]) -> list[NoiseLaw]:
    """Laws of one number: of every family and number of draws the least and the largest scale in use."""
    groups: dict[tuple[str, int], set[float]] = {}
    for law in laws:
        if law.family in ("gaussian", "laplace", "tulap"):
            groups.setdefault((law.family, law.draws), set()).update(scale for scale in law.scales if scale > 0)
        elif law.family == "above":
            groups.setdefault(("laplace", 1), set()).update({law.shared, *law.scales})
    return [
        NoiseLaw(family, (scale,), draws)  # type: ignore[arg-type]
        for (family, draws), scales in sorted(groups.items())
        for scale in sorted({min(scales), max(scales)})
    ]


def drawn(law: NoiseLaw, runs: int) -> list[int]:
    """Draw one number so many times, with the noise of confidential rows."""
    return PrivateDraws().noise(NoiseLaw(law.family, law.scales * runs, law.draws))


def law_tests(law: NoiseLaw, runs: int) -> list[LawTest]:
    """Test the spread, the shape, the remainders and the independence of draws."""
    values = drawn(law, runs)
    name = f"discrete {law.family} of scale {law.scales[0]:.6g}" + (f", {law.draws} draws" if law.draws > 1 else "")
    whole = np.array([int(value) % _REMAINDERS for value in values])
    plain, found = _plain(law, np.array([float(value) for value in values]))
    tests = [_spread(name, plain, found), _independence(name, found)]
    if law.draws == 1:
        tests.append(_shape(name, plain, found))
    if (TULAP_GRID if law.family == "tulap" else law.scales[0]) >= 64 * _REMAINDERS:
        pvalue = shares_pvalue(np.bincount(whole, minlength=_REMAINDERS), np.full(_REMAINDERS, 1 / _REMAINDERS))
        tests.append(LawTest(f"{name}: remainders of {_REMAINDERS}", pvalue))
    return tests


def _plain(law: NoiseLaw, values: Array) -> tuple[NoiseLaw, Array]:
    """Put Tulap noise on the whole steps of its grid, below which it is uniform: there it is a discrete Laplace."""
    if law.family != "tulap":
        return law, values
    return NoiseLaw("laplace", (law.scales[0] / TULAP_GRID,)), np.rint(values / TULAP_GRID)


def _spread(name: str, law: NoiseLaw, values: Array) -> LawTest:
    """Count the draws in the middle half of the law, an exactly binomial number."""
    cut, share = _middle(law)
    inside = int((np.abs(values) <= cut).sum())
    return LawTest(f"{name}: spread", float(stats.binomtest(inside, len(values), min(share, 1.0)).pvalue))


def _middle(law: NoiseLaw) -> tuple[float, float]:
    """Return a number c for which about half of the draws are from -c to c, and how many exactly."""
    scale = law.scales[0]
    if scale <= _EXACT_BELOW:
        masses = _summed_masses(law) if law.draws > 1 else _masses(law, np.arange(0.0, int(40 * scale) + 6))
        within = 2 * np.cumsum(masses) - masses[0]
        place = int(np.argmax(within >= 0.5))
        return float(place), float(within[place])
    half = {"gaussian": float(special.ndtri(0.75)), "laplace": float(np.log(2))}[law.family]
    cut = float(np.floor(scale * (half if law.draws == 1 else 0.6745 * np.sqrt(2 * law.draws))))
    reach = (cut + 0.5) / scale
    if law.draws > 1:  # a sum of Laplace draws is a difference of two gamma variables
        one = stats.gamma(law.draws)
        ends = one.ppf(1e-15), one.isf(1e-15)
        found = integrate.quad(lambda u: one.pdf(u) * (one.cdf(u + reach) - one.cdf(u - reach)), *ends, limit=200)
        return cut, float(found[0])
    return cut, float(1 - 2 * special.ndtr(-reach)) if law.family == "gaussian" else float(-np.expm1(-reach))


def _summed_masses(law: NoiseLaw) -> Array:
    """Probabilities of 0, 1, 2, ... under a sum of discrete Laplace draws, from their characteristic function."""
    p, size = np.exp(-1 / law.scales[0]), 2 ** int(np.ceil(np.log2(100 * (law.scales[0] + 1) * np.sqrt(law.draws))))
    one = (1 - p) ** 2 / (1 - 2 * p * np.cos(2 * np.pi * np.arange(size) / size) + p**2)
    return np.asarray(np.maximum(np.fft.ifft(one**law.draws).real, 0.0)[: size // 2])


def _masses(law: NoiseLaw, support: Array) -> Array:
    """Probabilities of whole numbers under a single draw, of a discrete Gaussian or Laplace."""
    scale = law.scales[0]
    if law.family == "laplace":
        return np.asarray(np.tanh(0.5 / scale) * np.exp(-np.abs(support) / scale))
    reach = np.arange(-int(40 * scale) - 5, int(40 * scale) + 6, dtype=np.float64)
    total = np.exp(-(reach**2) / (2 * scale**2)).sum()
    return np.asarray(np.exp(-(support**2) / (2 * scale**2)) / total)


def _independence(name: str, values: Array) -> LawTest:
    """Signs of a draw and of the next one: a difference of two numbers of runs, binomial under independence."""
    signs = np.sign(values)
    signs = signs[signs != 0]
    pairs = signs[: len(signs) // 2 * 2].reshape(-1, 2)
    if len(pairs) < 50:
        return LawTest(f"{name}: independence", 1.0)
    same = int((pairs[:, 0] == pairs[:, 1]).sum())
    return LawTest(f"{name}: independence", float(stats.binomtest(same, len(pairs), 0.5).pvalue))


def _shape(name: str, law: NoiseLaw, values: Array) -> LawTest:
    """Compare counts in bins of about equal probability, each an exactly binomial number."""
    edges, below = bins_of(law)
    expected = np.diff(np.concatenate([[0.0], below, [1.0]]))
    observed = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(expected))
    return LawTest(f"{name}: shape", shares_pvalue(observed, expected))


def bins_of(law: NoiseLaw) -> tuple[Array, Array]:
    """Whole numbers that end bins of about equal probability, and the probabilities up to and with each.

    Of few distinct numbers each is a bin. Above the scale up to which probabilities are summed, those of the continuous
    law are taken half a step beyond the whole number.
    """
    scale = law.scales[0]
    if scale <= _EXACT_BELOW:
        reach = int(40 * scale) + 5
        support = np.arange(-reach, reach + 1)
        cumulative = np.cumsum(_masses(law, support.astype(np.float64)))
        ends = np.searchsorted(cumulative, np.arange(1, _BINS) / _BINS)
        edges = np.unique(support[np.clip(ends, 0, len(support) - 1)]).astype(np.float64)
        return edges, cumulative[edges.astype(int) + reach]
    gaussian, even = law.family == "gaussian", np.arange(1, _BINS) / _BINS
    edges = np.floor(scale * (special.ndtri(even) if gaussian else stats.laplace.ppf(even)))
    beyond = (edges + 0.5) / scale
    return edges, np.asarray(special.ndtr(beyond) if gaussian else stats.laplace.cdf(beyond))


def shares_pvalue(observed: NDArray[np.intp], expected: Array) -> float:
    """P-value of counts (d,) beside probabilities (d,): the least of exact binomial ones, times twice their number.

    Each count is binomial. By the union bound the p-value is at most any level with at most that probability, however
    few draws are expected, which Pearson's statistic is not in its far tail. Outcomes of fewer than 10 expected draws
    are put together.
    """
    total = int(observed.sum())
    small = expected * total < 10
    seen = np.append(observed[~small], observed[small].sum())
    shares = np.clip(np.append(expected[~small], expected[small].sum()), 0.0, 1.0)
    below, above = stats.binom.cdf(seen, total, shares), stats.binom.sf(seen - 1, total, shares)
    return min(1.0, 2 * len(seen) * float(min(below.min(), above.min())))


def choice_tests(what: str, chosen: Sequence[int], log_probabilities: Array) -> LawTest:
    """Test choices (R,) against exact probabilities (d,)."""
    expected = np.exp(log_probabilities)
    observed = np.bincount(np.asarray(chosen), minlength=len(expected))
    return LawTest(f"{what}: probabilities of outcomes", shares_pvalue(observed, expected / expected.sum()))
