"""The statistical part of an audit: tests of the samplers, and lower bounds from draws on two neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import integrate, special, stats

from dpinfer.kernel.quantiles import chosen_points, sorted_places
from dpinfer.kernel.run import noisy, noisy_answers
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Above, Largest, Place, Resampled
from dpinfer.kernel.sums import replicate_sums
from dpinfer.privacy.resampling import POISSON
from dpinfer.release.laws import ABOVE, TULAP_GRID, NoiseLaw
from dpinfer.studies.audit_exact import PREFIX, first_logs, last_logs, rank_bins, score_logs
from dpinfer.studies.audit_pairs import added, frame_of, source_of, sums_of

if TYPE_CHECKING:
    from dpinfer.kernel.price import PricedStage
    from dpinfer.statistics.arrays import Array, Places
    from dpinfer.studies.audit_exact import StageWorst
    from dpinfer.studies.audit_pairs import Kind, Setting, Stated, Worst

__all__ = [
    "Bounded", "Event", "LawTest", "Replays", "bins_of", "choice_test", "chosen_event", "law_tests", "replay_all",
    "shares_pvalue", "tests_of_laws", "trade_off", "upper_share",
]  # fmt: skip


# Samplers against their probability mass functions

_BINS = 32
_EXACT_BELOW = 1000.0
"""Scale up to which probabilities are summed one by one; above it the continuous law is off by less than 1e-6."""

_CONTINUOUS = {"gaussian": stats.norm, "laplace": stats.laplace}
_REMAINDERS = 8
_CHOICES = 1000
_LAW_RUNS = 20_000
_LEAST_LAW_RUNS = 2000


@dataclass(frozen=True, slots=True)
class LawTest:
    """A test that draws follow their stated distribution.

    Attributes
    ----------
    what : str
    pvalue : float
    """

    what: str
    pvalue: float


def tests_of_laws(worst: list[StageWorst], setting: Setting, runs: int | None) -> list[LawTest]:
    """Test every sampler in use against its distribution, and choices against their exact probabilities.

    For every family and number of draws, the smallest and the largest scale in use are tested.
    """
    runs = _LAW_RUNS if runs is None else max(runs, _LEAST_LAW_RUNS)
    groups: dict[tuple[Any, int], set[float]] = {}
    for law in (one.stage.law for one in worst):
        if law.family in ("gaussian", "laplace", "tulap"):
            groups.setdefault((law.family, law.draws), set()).update(scale for scale in law.scales if scale > 0)
        elif law.family == "above":
            groups.setdefault(("laplace", 1), set()).update({law.shared, *law.scales})
    found = []
    for (family, draws), scales in sorted(groups.items()):
        for scale in sorted({min(scales), max(scales)}):
            found += law_tests(NoiseLaw(family, (scale,), draws), runs)
    for one in worst:
        measure, few = one.stage.stage.measure, min(runs, _CHOICES)
        if isinstance(measure, Largest):
            scores = sums_of(one.stage.rows, setting.base, setting.schema)
            scale, kind = one.stage.law.scales[0], measure.law
            chosen = [PrivateDraws().place(scores, kind, scale) for _ in range(few)]
            found.append(choice_test(one.name, chosen, score_logs(np.array(scores, dtype=float), kind, scale)))
        elif isinstance(measure, Above):
            found += _tests_of_answers(one.stage, measure, one.name, setting, few)
        elif isinstance(measure, Place):  # the first group at the first probability, in stretches between the values
            source, scales_used = source_of(setting.base, setting.schema), one.stage.law.scales
            places = sorted_places(one.stage.rows, source)[0].astype(np.int64)
            cuts, logs = rank_bins(places, one.stage.rows.points, measure.probabilities[0], scales_used[0])
            drawn = PrivateDraws()
            given = one.stage.rows, measure.probabilities, scales_used, source, drawn
            points = [chosen_points(*given)[0] for _ in range(few // 4)]
            found.append(choice_test(one.name, np.searchsorted(cuts, points, side="right") - 1, logs))
    return found


def law_tests(law: NoiseLaw, runs: int) -> list[LawTest]:
    """Test the spread, the shape, the remainders and the independence of draws.

    The spread counts the draws in the middle half of the distribution, the shape those in bins of about equal
    probability, and independence compares the signs of consecutive draws: each count is exactly binomial.
    """
    values = PrivateDraws().noise(NoiseLaw(law.family, law.scales * runs, law.draws))
    name = f"discrete {law.family} of scale {law.scales[0]:.6g}" + (f", {law.draws} draws" if law.draws > 1 else "")
    plain, found = law, np.array([float(value) for value in values])
    if law.family == "tulap":  # on the whole steps of its grid, below which it is uniform, it is a discrete Laplace
        plain, found = NoiseLaw("laplace", (law.scales[0] / TULAP_GRID,)), np.rint(found / TULAP_GRID)
    middle, share = _middle(plain)
    inside = int((np.abs(found) <= middle).sum())
    tests = [LawTest(f"{name}: spread", float(stats.binomtest(inside, len(found), min(share, 1.0)).pvalue))]
    signs = np.sign(found)
    signs = signs[signs != 0]
    pairs = signs[: len(signs) // 2 * 2].reshape(-1, 2)
    same = int((pairs[:, 0] == pairs[:, 1]).sum())
    pvalue = 1.0 if len(pairs) < 50 else float(stats.binomtest(same, len(pairs), 0.5).pvalue)
    tests.append(LawTest(f"{name}: independence", pvalue))
    if law.draws == 1:
        edges, below = bins_of(plain)
        expected = np.diff(np.concatenate([[0.0], below, [1.0]]))
        observed = np.bincount(np.searchsorted(edges, found, side="left"), minlength=len(expected))
        tests.append(LawTest(f"{name}: shape", shares_pvalue(observed, expected)))
    if (TULAP_GRID if law.family == "tulap" else law.scales[0]) >= 64 * _REMAINDERS:
        whole = np.bincount([int(value) % _REMAINDERS for value in values], minlength=_REMAINDERS)
        pvalue = shares_pvalue(whole, np.full(_REMAINDERS, 1 / _REMAINDERS))
        tests.append(LawTest(f"{name}: remainders of {_REMAINDERS}", pvalue))
    return tests


def _middle(law: NoiseLaw) -> tuple[float, float]:
    """Return a number c such that about half of the draws lie from -c to c, and the exact share."""
    scale = law.scales[0]
    if scale <= _EXACT_BELOW:
        masses = _summed_masses(law) if law.draws > 1 else _masses(law, np.arange(0.0, int(40 * scale) + 6))
        within = 2 * np.cumsum(masses) - masses[0]
        place = int(np.argmax(within >= 0.5))
        return float(place), float(within[place])
    half = _CONTINUOUS[law.family].ppf(0.75) if law.draws == 1 else 0.6745 * np.sqrt(2 * law.draws)
    cut = float(np.floor(scale * half))
    reach = (cut + 0.5) / scale
    if law.draws > 1:  # a sum of Laplace draws is a difference of two gamma variables
        one = stats.gamma(law.draws)
        ends = one.ppf(1e-15), one.isf(1e-15)
        found = integrate.quad(lambda u: one.pdf(u) * (one.cdf(u + reach) - one.cdf(u - reach)), *ends, limit=200)
        return cut, float(found[0])
    return cut, float(1 - 2 * _CONTINUOUS[law.family].sf(reach))


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


def bins_of(law: NoiseLaw) -> tuple[Array, Array]:
    """Upper ends of bins of about equal probability, and the cumulative probability at each.

    With few distinct numbers each is a bin. Beyond the scale up to which probabilities are summed, the continuous
    distribution is evaluated half a step beyond the whole number.
    """
    scale = law.scales[0]
    if scale <= _EXACT_BELOW:
        reach = int(40 * scale) + 5
        support = np.arange(-reach, reach + 1)
        cumulative = np.cumsum(_masses(law, support.astype(np.float64)))
        ends = np.searchsorted(cumulative, np.arange(1, _BINS) / _BINS)
        edges = np.unique(support[np.clip(ends, 0, len(support) - 1)]).astype(np.float64)
        return edges, cumulative[edges.astype(int) + reach]
    edges = np.floor(scale * _CONTINUOUS[law.family].ppf(np.arange(1, _BINS) / _BINS))
    return edges, np.asarray(_CONTINUOUS[law.family].cdf((edges + 0.5) / scale))


def shares_pvalue(observed: Places, expected: Array) -> float:
    """P-value of counts (d,) given probabilities (d,): the smallest exact binomial one, times twice their number.

    Each count is binomial. By the union bound the p-value is valid however few draws are expected, unlike that of
    Pearson's statistic far in its tail. Outcomes with fewer than 10 expected draws are pooled.
    """
    total = int(observed.sum())
    small = expected * total < 10
    seen = np.append(observed[~small], observed[small].sum())
    shares = np.clip(np.append(expected[~small], expected[small].sum()), 0.0, 1.0)
    below, above = stats.binom.cdf(seen, total, shares), stats.binom.sf(seen - 1, total, shares)
    return min(1.0, 2 * len(seen) * float(min(below.min(), above.min())))


def choice_test(what: str, chosen: Any, log_probabilities: Array) -> LawTest:
    """Test choices (R,) against exact probabilities (d,)."""
    expected = np.exp(log_probabilities)
    observed = np.bincount(np.asarray(chosen), minlength=len(expected))
    return LawTest(f"{what}: probabilities of outcomes", shares_pvalue(observed, expected / expected.sum()))


def _tests_of_answers(stage: PricedStage, measure: Above, name: str, setting: Setting, runs: int) -> list[LawTest]:
    """Test the positions of the first and of the last answer "above", among the first queries.

    If the rows are far from the thresholds, sums a few noise scales around the thresholds are used.
    """
    law, own, thresholds = stage.law, stage.law.scales[0], measure.thresholds
    near = [threshold + round(own * (place % 5 - 2)) for place, threshold in enumerate(thresholds)]
    exact = sums_of(stage.rows, setting.base, setting.schema)
    draws, found = PrivateDraws(), []
    for what, sums in (("", exact), (", near the thresholds", near)):
        margins = np.array([a - b for a, b in zip(sums, thresholds, strict=True)][:PREFIX], dtype=float)
        above = np.array([noisy_answers(stage, sums, draws)[:PREFIX] for _ in range(runs // 2)]) == ABOVE
        ended = np.cumsum(above, axis=1)
        first = np.where(above.any(axis=1), above.argmax(axis=1), above.shape[1])
        last = np.where(ended[:, -1] == measure.answers, (ended == measure.answers).argmax(axis=1), above.shape[1])
        logs = first_logs(margins, law.shared, own), last_logs(margins, law.shared, own, measure.answers)
        found.append(choice_test(f"{name}{what}, first above", first, logs[0]))
        found.append(choice_test(f"{name}{what}, last above", last, logs[1]))
    return found


# The real draw of a stage, many times over sums that are computed once

_AT_ONCE = 500
"""Runs that one call of the sampler draws for."""

_COORDINATES = 100
"""Coordinates at most that the event looks at: those that give most away."""

_DRAWS = 300_000
"""Numbers drawn for one data set at most, where the number of runs is left to the audit."""

_RUNS = 20_000
_LEAST_RUNS = 200

Replay = tuple["Array", "Array", bool]
"""Log likelihood ratios (R,) of draws on the first data set of a pair and on the second, positive where the first is
likelier; and whether everything that was released is a whole number of Python's own type."""


@dataclass(frozen=True, eq=False, slots=True)
class Bounded:
    """An event, with the stated bound on it."""

    name: str
    price: str
    stated: Stated
    event: Event


@dataclass(frozen=True, eq=False, slots=True)
class Replays:
    """Repeated draws of all stages at given privacy parameters.

    ``bounded`` holds the event of all stages together first, then that of each; ``whole`` says whether all released
    numbers are whole.
    """

    bounded: tuple[Bounded, ...]
    curve: pd.DataFrame | None
    other: Event | None
    runs: int
    whole: bool


def replay_all(worst: list[StageWorst], setting: Setting, runs: int | None) -> Replays:
    """Redraw every stage of noisy sums on its worst pair, separately and jointly.

    Jointly is what an adversary sees who chooses neighbours for each stage; the guarantee covers that, too.
    """
    sums = [one for one in worst if one.stage.law.family in ("gaussian", "laplace", "tulap") and one.worst.exact]
    sums = [one for one in sums if any(one.worst.change)]
    if not sums:
        return Replays((), None, None, 0, True)
    weighted = [isinstance(one.stage.stage.measure, Resampled) for one in sums]
    if runs is None:  # fewer for many coordinates
        pairs = zip(sums, weighted, strict=True)
        widths = [len(one.stage.names if secret else _active(one.stage, one.worst)) for one, secret in pairs]
        drawn = max(width * one.stage.law.draws for one, width in zip(sums, widths, strict=True))
        runs = int(np.clip(_DRAWS // max(drawn, 1), _LEAST_RUNS, _RUNS))
    found = [
        _replay_weighted(one.stage, one.worst, runs, setting.base) if secret else _replay(one.stage, one.worst, runs)
        for one, secret in zip(sums, weighted, strict=True)
    ]
    first, second = np.sum([one[:2] for one in found], axis=0)
    stated, price = setting.stated, str(setting.privacy)
    bounded = [Bounded("all draws", price, stated, chosen_event(first, second, stated.kind))]
    if len(sums) > 1:
        bounded += [
            Bounded(one.name, price, one.share, chosen_event(*replay[:2], stated.kind))
            for one, replay in zip(sums, found, strict=True)
        ]
    curve = trade_off(first, second, stated.kind, stated.level)
    other = chosen_event(first, second, "mu" if stated.kind == "epsilon" else "epsilon")
    return Replays(tuple(bounded), curve, other, runs, all(whole for _, _, whole in found))


def _active(priced: PricedStage, worst: Worst) -> list[int]:
    """Coordinates that change and carry noise; if there are many, those with the largest privacy loss."""
    change, scales = np.array(worst.change, dtype=np.float64), np.asarray(priced.law.scales)
    each = np.where(scales > 0, np.abs(change) / np.where(scales > 0, scales, 1.0), 0.0)
    order = np.argsort(-each, kind="stable")[:_COORDINATES]
    return [int(j) for j in order if each[j] > 0] or [int(np.argmax(scales))]


def _replay(priced: PricedStage, worst: Worst, runs: int) -> Replay:
    """Redraw a stage on each of two neighbours.

    The sums of the second data set are subtracted in whole numbers. The log likelihood ratio compares noise around the
    change with noise around zero. For a sum of several Laplace draws it is that of the normal distribution of the same
    variance: any event gives a valid bound.
    """
    law, active = priced.law, _active(priced, worst)
    scales = [law.scales[j] for j in active]
    moved = np.array([worst.change[j] * priced.multiplier for j in active], dtype=np.float64)
    rest = [worst.exact[j] * priced.multiplier for j in active]
    found, whole = [], True
    for side in (1, 0):
        exact = [worst.exact[j] + side * worst.change[j] for j in active]
        numbers: list[float] = []
        for start in range(0, runs, _AT_ONCE):
            count = min(runs - start, _AT_ONCE)
            stage = replace(priced, law=NoiseLaw(law.family, tuple(scales * count), law.draws))
            released = noisy(stage, exact * count, PrivateDraws())
            whole = whole and all(type(value) is int for value in released)
            numbers += [float(value - total) for value, total in zip(released, rest * count, strict=True)]
        values = np.array(numbers).reshape(runs, len(active))
        if law.family == "gaussian" or law.draws > 1:
            squared = np.array(scales) ** 2 * (2 * law.draws if law.draws > 1 else 1)
            found.append((values * (moved / squared)).sum(axis=1) - 0.5 * (moved**2 / squared).sum())
            continue
        if law.family == "tulap":  # the uniform fraction tells nothing
            values = np.rint(values / TULAP_GRID) * TULAP_GRID
        found.append(((np.abs(values) - np.abs(values - moved)) / np.array(scales)).sum(axis=1))
    return found[0], found[1], whole


def _replay_weighted(priced: PricedStage, worst: Worst, runs: int, base: pd.DataFrame) -> Replay:
    """Redraw weights and noise, on data sets that hold only the units of the pair."""
    rows = priced.rows
    assert worst.pair is not None
    units = worst.pair.first, worst.pair.second
    adds = [np.array(added(priced, unit), dtype=np.float64) for unit in units]
    found, whole = [], True
    for unit in units:
        source = source_of(frame_of(base.iloc[:0], unit, rows.schema), rows.schema)
        values = np.empty((runs, rows.replicates, rows.width))
        for run in range(runs):
            draws = PrivateDraws()
            released = noisy(priced, replicate_sums(rows, source, draws, threads=1), draws)
            whole = whole and all(type(value) is int for value in released)
            values[run] = np.array(released, dtype=np.float64).reshape(rows.replicates, rows.width)
        found.append(_weighted_ratio(values, adds[0], priced) - _weighted_ratio(values, adds[1], priced))
    return found[0], found[1], whole


def _weighted_ratio(values: Array, adds: Array, priced: PricedStage) -> Array:
    """Log likelihood ratio (R,) of sums of one randomly weighted unit against sums of no unit."""
    rows = priced.rows
    scales = np.asarray(priced.law.scales[: rows.width])
    noisy_ones = scales > 0
    unit = adds[noisy_ones] * priced.multiplier / scales[noisy_ones]
    seen = (values[..., noisy_ones] / scales[noisy_ones]) @ unit  # (R, B)
    size = float(unit @ unit)
    twice = 2.0 * seen - 2.0 * size
    if rows.in_pairs:
        each = np.logaddexp(twice[:, ::2], twice[:, 1::2]) - np.log(2)
    elif rows.weights == "poisson":
        logs = np.log(np.array(POISSON.counts) / sum(POISSON.counts))
        times = np.arange(len(logs))[:, None, None]
        each = special.logsumexp(times * seen - 0.5 * times**2 * size + logs[:, None, None], axis=0)
    else:
        each = np.logaddexp(0.0, twice) - np.log(2)
    return np.asarray(each.sum(axis=1))


# Lower bounds on privacy loss from counts of an event: thresholds of one half of the runs, tested on the other

_CHOSEN_AT = 1e-8
"""Level at which thresholds are compared on the first half: at larger ones those far out, met a few times, win by luck.

Of 4,000 normal draws at mu = 1 a thousandth of bounds is below .42 at 1e-5 and below .56 at 1e-8; medians are alike."""

_THRESHOLDS = 200
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Event:
    """An event, with its frequency and the number of runs on each of two neighbours.

    Attributes
    ----------
    threshold : float
        The event is a log likelihood ratio above it.
    met, of : int
        Occurrences and runs on the first data set.
    other_met, other_of : int
        Occurrences and runs on its neighbour.
    """

    threshold: float
    met: int
    of: int
    other_met: int
    other_of: int

    def lower(self, kind: Kind, level: float) -> float:
        """Return a lower bound on mu or epsilon that is wrong with probability at most ``level``.

        The event defines a test; each of its two error rates has a Clopper-Pearson bound at half the level.
        """
        power_missed = upper_share(self.of - self.met, self.of, level / 2)
        false_alarm = upper_share(self.other_met, self.other_of, level / 2)
        return float(_bound(kind, np.array([false_alarm]), np.array([power_missed]))[0])


def upper_share(met: Any, of: int, level: float) -> Array:
    """Clopper-Pearson (1934) upper limit: the share exceeds it with probability at most ``level``."""
    found = stats.beta.isf(level, np.asarray(met) + 1, of - np.asarray(met))
    return np.asarray(np.where(np.asarray(met) >= of, 1.0, found))


def _bound(kind: Kind, false_alarm: Array, missed: Array) -> Array:
    """Smallest mu or epsilon that allows two error rates this small (Dong, Roth & Su 2022; Kairouz et al. 2015)."""
    if kind == "mu":
        found = -special.ndtri(false_alarm) - special.ndtri(missed)
    else:
        with np.errstate(divide="ignore"):
            one = np.log(np.maximum(1 - missed, 1e-300)) - np.log(false_alarm)
            other = np.log(np.maximum(1 - false_alarm, 1e-300)) - np.log(missed)
        found = np.maximum(one, other)
    return np.asarray(np.maximum(np.nan_to_num(found, nan=0.0, neginf=0.0), 0.0))


def chosen_event(first: Array, other: Array, kind: Kind) -> Event:
    """Choose a threshold on the first half of the log likelihood ratios (R,) of two neighbours; count on the second.

    The values in ``first`` tend to be larger than those in ``other``.
    """
    first, other = np.round(first, _DIGITS), np.round(other, _DIGITS)  # last bits of equal ratios are equal
    half, other_half = len(first) // 2, len(other) // 2
    seen, rest = np.sort(first[:half]), np.sort(other[:other_half])
    cuts = np.unique(np.quantile(np.concatenate([seen, rest]), np.linspace(0, 1, _THRESHOLDS)))
    cuts = np.concatenate([cuts, 0.5 * (cuts[1:] + cuts[:-1])])
    missed = upper_share(np.searchsorted(seen, cuts, side="right"), half, _CHOSEN_AT)
    alarm = upper_share(other_half - np.searchsorted(rest, cuts, side="right"), other_half, _CHOSEN_AT)
    cut = float(cuts[int(np.argmax(_bound(kind, alarm, missed)))])
    tested, others = first[half:], other[other_half:]
    return Event(cut, int((tested > cut).sum()), len(tested), int((others > cut).sum()), len(others))


def trade_off(first: Array, other: Array, kind: Kind, level: float) -> pd.DataFrame:
    """Error rates of all thresholds, and the smallest that a stated mu or epsilon allows, at 100 points.

    The columns are "false alarm", "missed" and "missed, stated".
    """
    first, other = np.round(first, _DIGITS), np.round(other, _DIGITS)
    cuts = np.quantile(np.concatenate([first, other]), np.linspace(0, 1, 100))
    alarm = np.array([(other > cut).mean() for cut in cuts])
    missed = np.array([(first <= cut).mean() for cut in cuts])
    if kind == "mu":
        least = special.ndtr(-special.ndtri(alarm) - level)
    else:
        least = np.maximum.reduce([np.zeros_like(alarm), 1 - np.exp(level) * alarm, np.exp(-level) * (1 - alarm)])
    return pd.DataFrame({"false alarm": alarm, "missed": missed, "missed, stated": least})
