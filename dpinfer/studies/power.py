"""Power of a test, and the rows or budget that it requires, before any budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import is_finite, is_list, is_whole, of_type
from dpinfer.descriptions.binomial import BinomTest
from dpinfer.descriptions.binomial_inference import binomial_power
from dpinfer.descriptions.mean_test_inference import GroupMeans
from dpinfer.descriptions.mean_tests import MeanComparison
from dpinfer.display.progress import check_progress, watched
from dpinfer.display.report import Report, Reported, Table, count
from dpinfer.errors import DPInferError, OptionError
from dpinfer.kernel.sampling import check_scales
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy
from dpinfer.release import NoiseLaw
from dpinfer.results.drawing import FAINT, given_or_new, ink, legend, restrain, shades, titled
from dpinfer.schema.schema import Schema
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import MOST_DRAWS, HidingModel, batch_pvalues
from dpinfer.tables.chi_squared import ChiSquare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.nulls import Draws, NullModel

__all__ = [
    "PRICES", "TESTS", "PowerStudy", "amount_of", "bracket", "crossing", "four_digits_down",
    "power", "price_bounds", "public_facts", "three_digits_up", "unit_of", "with_amount",
]  # fmt: skip

Test = ChiSquare | BinomTest | MeanComparison
TESTS = (ChiSquare, BinomTest, MeanComparison)
"""Questions whose answer is a p-value."""

PRICES = (1e-6, 1e3)
"""Amounts between which prices are sought."""

_NULL_DRAWS = 4
"""Releases drawn under the hypothesis for each that is drawn under the truth."""

_AT_LEVEL = 100
"""Of them, the least number that should be beyond the critical value."""

_FEWEST, _MOST_ROWS = 100, 10**9
_STUDY, _SEARCH, _FOUND = range(3)
_CHUNK = 200_000
_TIE = 1e-9
_FITTED, _OWN_DRAWS, _MOST_OWN = 1000, 199, 9999


@dataclass(frozen=True, eq=False)
class PowerStudy(Reported):
    """Power of a test over numbers of rows and privacy parameters, as `power` returns it.

    Attributes
    ----------
    frame : DataFrame
        A row per number of rows and privacy parameters. Columns: "n", "privacy", "power", "std err" (Monte Carlo; 0 if
        power is exact), "ordinary power" (that of the ordinary test without privacy on the same population) and "lost"
        (the loss of power compared with a test that knew margins, variances and group sizes, if noise hides them and
        the test is conservative).
    test : ChiSquare, BinomTest or MeanComparison
        Not bound to data.
    truth : object
        As given to `power`.
    n : tuple of int
    privacy : tuple of Privacy
    schema : Schema
    neighbors : {"add_remove", "replace_one"}
    alpha : float
    replicates : int
    seed : int
    progress : bool or None
    """

    test: Test
    truth: Any = field(repr=False)
    n: tuple[int, ...]
    privacy: tuple[Privacy, ...]
    schema: Schema = field(repr=False)
    neighbors: Neighbors
    alpha: float
    replicates: int
    seed: int
    progress: bool | None = field(default=None, repr=False)
    frame: pd.DataFrame = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.n) < self._least:
            raise OptionError("n", min(self.n), f"at least {self._least} rows: two for each group")
        for price in self.privacy:
            self.planned(price)
        ordinary = {n: self._power(n, None, _STUDY).power for n in self.n}
        cells = list(product(self.n, self.privacy))
        watch = watched(cells, "powers", total=len(cells), progress=self.progress)
        points = ((n, price, self._power(n, price, _STUDY)) for n, price in watch)
        rows = [(n, str(price), one.power, one.error, ordinary[n], one.lost) for n, price, one in points]
        names = ["n", "privacy", "power", "std err", "ordinary power", "lost"]
        object.__setattr__(self, "frame", pd.DataFrame(rows, columns=names))

    def __repr__(self) -> str:
        how = "exact" if self._population is None else f"{self.replicates:,} replicates"
        return (
            f"<PowerStudy: {self.test.text(self.schema)}, {len(self.n)} sizes x {len(self.privacy)} privacy "
            f"parameters, alpha {self.alpha:g}, {self.neighbors}, {how}>"
        )

    def _report(self) -> Report:
        draws = "exactly" if self._population is None else f"from {count(self.replicates)} replicates"
        facts = (("level", f"{self.alpha:g}"), ("neighbours", self.neighbors), ("computed", draws))
        title = f"Power of {self.test.text(self.schema)}"
        return Report(title, facts, (Table.of(self.frame, index=False),))

    def at(self, n: int, privacy: Privacy | None) -> float:
        """Return the power at other rows and privacy parameters; None gives that of the ordinary test."""
        return self._power(n, privacy, _STUDY).power

    def sample_size(self, power: float = 0.8) -> pd.DataFrame:
        """Find the smallest number of rows that reaches a given power, for each privacy parameter.

        Parameters
        ----------
        power : float
            Target power, between the level and 1.

        Returns
        -------
        DataFrame
            Indexed by the privacy parameters, as text. Columns: "n" (missing if a billion rows do not suffice, as when
            the hypothesis is true), and "power" and "std err" at that number of rows, from independent draws.

        Raises
        ------
        OptionError
            If ``power`` is not such a number.

        Notes
        -----
        Bisection from the nearest number of rows in the study, with independent draws at every step. If power is
        simulated, a line is then fitted to probits of power within the last tenth. Power is assumed to increase with n.
        """
        target, rows = self._target(power), []
        for price in self.privacy:
            own = self.frame[self.frame["privacy"] == str(price)]
            start = int(own["n"].iloc[int((own["power"] - target).abs().argmin())])

            def at(n: float, price: Privacy = price) -> float:
                return self._power(int(n), price, _SEARCH).power

            found = smallest(at, target, start, (self._least, _MOST_ROWS), whole=True, exact=self._population is None)
            n = None if found is None else int(found)
            rows.append((n, *((np.nan, np.nan) if n is None else self._power(n, price, _FOUND)[:2])))
        frame = pd.DataFrame(rows, columns=["n", "power", "std err"])
        frame.index = pd.Index([str(price) for price in self.privacy], name="privacy")
        return frame.astype({"n": "Int64", "power": float, "std err": float})

    def budget(self, power: float = 0.8) -> pd.DataFrame:
        """Find the smallest privacy budget that reaches a given power, for each number of rows.

        Parameters
        ----------
        power : float
            Target power, between the level and 1.

        Returns
        -------
        DataFrame
            A row per number of rows and unit of the study's privacy parameters. Columns: "n", "unit", "privacy" (the
            budget, rounded up to three digits; None if a thousand does not suffice), and "power" and "std err" at that
            budget, from independent draws. The delta of an `ApproxDP` is kept.

        Raises
        ------
        OptionError
            If ``power`` is not such a number.

        Notes
        -----
        Bisection on the logarithm of rho, epsilon or mu between 1e-6 and 1e3, or as near to these ends as the test can
        be measured; see `sample_size`.
        """
        target, rows = self._target(power), []
        for n, kind in product(self.n, dict.fromkeys(with_amount(price, 1.0) for price in self.privacy)):
            alike = [price for price in self.privacy if with_amount(price, 1.0) == kind]
            powers = self.frame[self.frame["n"] == n].set_index("privacy")["power"]
            nearest = min(alike, key=lambda price: abs(float(powers[str(price)]) - target))

            def at(amount: float, n: int = n, kind: Privacy = kind) -> float:
                return self._power(n, with_amount(kind, amount), _SEARCH).power

            within = price_bounds(self._measure, kind, [amount_of(price) for price in alike])
            exact = self._population is None
            found = smallest(at, target, amount_of(nearest), within, whole=False, exact=exact)
            price = None if found is None else with_amount(kind, three_digits_up(found))
            shown = (np.nan, np.nan) if price is None else self._power(n, price, _FOUND)[:2]
            rows.append((n, unit_of(kind), price, *shown))
        return pd.DataFrame(rows, columns=["n", "unit", "privacy", "power", "std err"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot power against the number of rows, a curve per privacy parameter; the ordinary test is dashed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6.5, 4.2)
        colors = shades(len(self.privacy))
        frame = self.frame.sort_values("n")
        for price, color in zip(self.privacy, colors, strict=True):
            own = frame[frame["privacy"] == str(price)]
            ax.errorbar(own["n"], own["power"], yerr=1.96 * own["std err"], color=color, fmt="o-", ms=4, label=price)
        plain = frame.drop_duplicates("n")
        ax.plot(plain["n"], plain["ordinary power"], "o--", ms=3, color=ink(), label="ordinary test, no privacy")
        ax.axhline(self.alpha, color=FAINT, lw=0.8, ls=":")
        ax.set(xscale="log", ylim=(0, 1.03), xlabel="rows", ylabel=f"power at level {self.alpha:g}")
        titled(ax, self.test.text(self.schema))
        restrain(ax)
        legend(ax)
        return ax

    def planned(self, price: Privacy) -> Measurement:
        """Return the measurement; DPInferError if it cannot be made with these privacy parameters."""
        measured = self.test.measurement(price, schema=self.schema, neighbors=self.neighbors)
        check_scales(measured.law, measured.cost.price)
        return measured

    def _measure(self, price: Privacy) -> None:
        """Refuse privacy parameters, other than the given ones, that the test does not take."""
        self.planned(price)
        if self._population is None:
            self._exact(1, price)

    @cached_property
    def _population(self) -> CountTruth | MeanTruth | None:
        """The population that samples come from; None if power is exact."""
        if isinstance(self.test, BinomTest):
            if not (is_finite(self.truth) and 0 <= self.truth <= 1):
                raise OptionError("truth", self.truth, "a number in [0, 1]: the proportion of the population")
            return None
        if isinstance(self.test, ChiSquare):
            return CountTruth(self.test, self, _read_cells(self.truth, self.test, self.schema))
        return MeanTruth(self.test, self, *_read_moments(self.truth, self.test, self.schema))

    @property
    def _least(self) -> int:
        """Smallest number of rows."""
        return self._population.least if self._population else 1

    def _target(self, power: Any) -> float:
        if not (is_finite(power) and self.alpha < power < 1):
            raise OptionError("power", power, f"a number between the level {self.alpha:g} and 1")
        return float(power)

    def _exact(self, n: int, price: Privacy | None) -> Power:
        test, law, step, share = cast("BinomTest", self.test), NO_NOISE, 1.0, float(self.truth)
        if price is not None:
            measured = self.planned(price)
            law, step = measured.law, measured.steps[0]
        side = test.alternative
        return Power(binomial_power(n, test.p, share, law, step=step, alpha=self.alpha, alternative=side), 0.0)

    def _power(self, n: int, price: Privacy | None, stream: int) -> Power:
        """Power at one point; None as privacy parameters stands for the ordinary test."""
        population, size = self._population, self.replicates
        if population is None:
            return self._exact(n, price)
        rng = np.random.default_rng([self.seed, stream, n])
        model, test = population.model(n, price), cast("ChiSquare | MeanComparison", self.test)
        expected = population.expected(n)[None]

        def in_chunks(function: Callable[[int], Array], total: int) -> Array:
            """Concatenate the values of a function over parts of ``total`` draws that fit the cache."""
            most = max(_CHUNK // expected.size, 100)
            return np.concatenate([function(min(most, total - start)) for start in range(0, total, most)])

        values = in_chunks(lambda some: population.draw(n, model, some, rng), size)
        moved = model.statistic(values)
        if price is not None and getattr(test, "null", "simulated") == "asymptotic":
            hit = moved >= stats.chi2.isf(self.alpha, cast("Any", model).dof)
            return Power(float(hit.mean()), float(hit.std() / np.sqrt(size)))
        if price is None and self.alpha < 1 / (MOST_DRAWS + 1):
            return Power(np.nan, np.nan)
        draws = max(_NULL_DRAWS * size, int(min(_AT_LEVEL / self.alpha, MOST_DRAWS)))

        def null_under(fitted: Any) -> Array:
            return in_chunks(lambda some: model.statistic(model.draw(fitted, some, rng))[0], draws)

        null, own_draws = null_under(model.fit(expected)), "adaptive" if price is None else test.draws
        hidden = model.hidden(values) if price is not None and isinstance(model, HidingModel) else np.zeros(1, bool)
        if not hidden.any():
            return _rejected(null, moved, self.alpha, own_draws)
        # Where noise hides what the hypothesis leaves open, the test's own fits: of such releases some get p-values of
        # their own, as the test computes them. What is lost is against a null under the hypothesis as it is.
        most = min(max(_OWN_DRAWS, int(np.ceil(2 / self.alpha)) - 1), _MOST_OWN)
        most = most if own_draws == "adaptive" else int(own_draws)
        pvalues = batch_pvalues(model, values[np.flatnonzero(hidden)[:_FITTED]], draws=most, rng=rng)
        own = pvalues <= self.alpha + _TIE
        share, found, error = float(hidden.mean()), float(own.mean()), float(own.std() / np.sqrt(own.size))
        clear = Power(found, 0.0) if hidden.all() else _rejected(null, moved[~hidden], self.alpha, own_draws)
        reached = share * found + (1 - share) * clear.power
        mixed = share * (1 - share) * (found - clear.power) ** 2 / len(values)
        error = float(np.sqrt((share * error) ** 2 + ((1 - share) * clear.error) ** 2 + mixed))
        true_null = null_under(population.model(n, None).fit(expected))
        return Power(reached, error, _rejected(true_null, moved, self.alpha, own_draws).power - reached)


def power(
    test: Test,
    truth: Any,
    *,
    n: int | Sequence[int],
    privacy: Privacy | Sequence[Privacy],
    schema: Schema | None = None,
    neighbors: Neighbors | None = None,
    alpha: float = 0.05,
    replicates: int = 4000,
    seed: int = 0,
    progress: bool | None = None,
) -> PowerStudy:
    """Compute the power of a test by rows and privacy parameters, at no privacy cost and without data.

    Parameters
    ----------
    test : ChiSquare, BinomTest or MeanComparison
        A question returned by `chisquare`, `chi2_contingency`, `binomtest`, `ttest_1samp`, `ttest_ind`, `ttest_rel` or
        `f_oneway`, bound to data or not. No data are read, and nothing is charged.
    truth : object
        The assumed population.

        - chisquare: probabilities of the levels, as array, Series or mapping by level.
        - chi2_contingency: joint probabilities of the cells, as a DataFrame or two-dimensional array (rows by
          columns), or a Series by both levels. With ``fixed=`` its margin is the shares of the samples, or these are
          in proportion to ``sizes=``, which are then scaled to n.
        - binomtest: the proportion.
        - ttest_1samp and ttest_rel: ``{"mean": 4.2, "sd": 1.1}``, of the column, or of the differences.
        - ttest_ind and f_oneway: a DataFrame with the columns "share", "mean" and "sd" and a row for each level; or a
          mapping from level to (share, mean, sd).
    n : int or sequence of int
        Numbers of rows that are counted, that is, that meet ``where=`` and fall in a cell.
    privacy : Privacy or sequence of Privacy
        Privacy parameters; the study combines every number of rows with each of them.
    schema : Schema, optional
        Required if the test is not bound to data.
    neighbors : {"add_remove", "replace_one"}, optional
        By default that of the bound data, else "add_remove".
    alpha : float
        Level of the test. No simulated p-value can fall below 1e-5: below it, power is 0 and "ordinary power" NaN.
    replicates : int
        Simulated releases behind each power, at least 100.
    seed : int
        Public; draws no privacy noise. Each power depends only on it and on its own n and privacy parameters.
    progress : bool, optional
        Whether to show a progress bar; by default the setting of `dpinfer.show_progress`.

    Returns
    -------
    PowerStudy

    Raises
    ------
    OptionError
        If an argument is invalid, such as a truth that does not match the levels or the bounds.
    DPInferError
        If the test cannot be measured with such privacy parameters, as from ``fit``.

    Notes
    -----
    Releases are simulated under the truth and under the hypothesis fitted to the expected sums of the truth, with the
    noise of the test's measurement. Power is the share of the former whose p-value among the latter is at most alpha.
    The test itself refits the hypothesis to every noisy release. If noise hides a margin of a table, a variance or the
    size of a group, the refit shifts and the test is conservative: up to 1,000 such releases get their own p-values, as
    the test computes them. "lost" is the power of the same statistic with a null simulated at the truth, minus this
    power; it may be negative by Monte Carlo error, or if the test uses another statistic. Otherwise refitting is
    omitted. In the designs on which the package's tests compare the two (independence with even and with uneven
    margins; one mean, from rows), the powers agree within four Monte Carlo standard errors, about 0.05.

    For means, sums are assumed normal, and sums of squares gamma, as for normal values. The mean and standard deviation
    are those of clamped values. Group sizes are multinomial.

    The power of `binomtest` is exact. "ordinary power" is that of Pearson's test of exact counts with a simulated
    null, the exact binomial test, and Student's, Welch's and Fisher's tests.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> test = dpi.binomtest("smokes", p=0.8, alternative="greater")
    >>> study = dpi.power(test, 0.9, n=[30, 100], privacy=dpi.PureDP(1.0), schema=schema, neighbors="replace_one")
    >>> study.frame["power"].round(3).tolist()
    [0.304, 0.834]
    >>> study.sample_size(0.8)["n"].tolist()
    [93]
    """
    if not isinstance(test, TESTS):
        good = "chisquare, chi2_contingency, binomtest, ttest_1samp, ttest_ind, ttest_rel or f_oneway"
        raise OptionError("test", test, f"a test made by {good}")
    schema, neighbors = public_facts(test.source, schema, neighbors, "a test that is bound to data")
    prices = (privacy,) if isinstance(privacy, Privacy) else privacy
    if not (isinstance(prices, Sequence) and prices and all(isinstance(price, Privacy) for price in prices)):
        raise OptionError("privacy", privacy, "one or more privacy parameters such as ZCDP(0.1)")
    if not (is_finite(alpha) and 0 < alpha < 1):
        raise OptionError("alpha", alpha, "a number between 0 and 1")
    if not (is_whole(replicates) and replicates >= _FEWEST):
        raise OptionError("replicates", replicates, f"a whole number, at least {_FEWEST}")
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative")
    check_progress(progress)
    sizes: list[Any] = list(n) if is_list(n) else [n]
    if not sizes or not all(is_whole(size) and 1 <= size <= _MOST_ROWS for size in sizes):
        raise OptionError("n", n, f"one or more whole numbers of rows from 1 to {_MOST_ROWS:,}")
    rows, prices = tuple(dict.fromkeys(map(int, sizes))), tuple(dict.fromkeys(prices))
    numbers = float(alpha), int(replicates), int(seed)
    return PowerStudy(replace(test, source=None), truth, rows, prices, schema, neighbors, *numbers, progress)


def public_facts(source: Any, schema: Any, neighbors: Any, where: str) -> tuple[Schema, Neighbors]:
    """Return the given schema and neighbours, or those of the data to which a question is bound."""
    schema = schema if schema is not None else getattr(source, "schema", None)
    of_type(Schema, "schema", schema, f"a Schema, or {where}")
    neighbors = neighbors if neighbors is not None else getattr(source, "neighbors", "add_remove")
    if neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    return schema, neighbors


# Power from draws


class Power(NamedTuple):
    """Power, its Monte Carlo standard error, and the power lost if noise hides margins or variances."""

    power: float
    error: float
    lost: float = 0.0


def _rejected(null: Array, moved: Array, alpha: float, draws: Draws) -> Power:
    """Share of statistics with Monte Carlo p-value at most alpha, and its error, including that of the null."""
    size, moved = len(null), np.where(np.isfinite(moved), moved, -np.inf)
    below = np.searchsorted(np.sort(null), moved - _TIE * np.maximum(np.abs(moved), 1.0), side="left")
    beyond = size - below  # NaN is sorted last, and counts as beyond

    def hits(level: float) -> Array:
        if draws == "adaptive":
            return np.asarray((1 + beyond) / (size + 1) <= level, dtype=np.float64)
        return np.asarray(stats.binom.cdf(np.floor(level * (draws + 1) + _TIE) - 1, draws, beyond / size))

    found, blur = hits(alpha), np.sqrt(alpha * (1 - alpha) / size)
    moves = (hits(min(alpha + blur, 1.0)).mean() - hits(alpha - blur).mean()) / 2
    return Power(float(found.mean()), float(np.sqrt(found.var() / len(found) + moves**2)))


# Search for the smallest number of rows, or price

_STRIDE, _NEAR, _CLOSE, _SMOOTHED = 8.0, 1.1, 1.001, 7

_MET = 5e-4
"""Shortfall, relative, that counts as none."""


def smallest(
    power: Callable[[float], float],
    target: float,
    start: float,
    within: tuple[float, float],
    *,
    whole: bool,
    exact: bool,
) -> float | None:
    """Smallest argument at which an increasing power reaches a target; None if not within the bounds.

    Brackets and bisects; simulated powers within the last bracket are then smoothed by a line through their probits.
    """

    def reached(x: float) -> bool:
        return power(x) >= target

    found = bracket(reached, start, within, whole=whole)
    if found is None or found[0] == found[1]:
        return None if found is None else found[0]
    low, high = found
    near = 1.0 if whole and exact else _CLOSE if exact else _NEAR
    while high > low * near and not (whole and high - low <= 1):
        middle = float(np.sqrt(low * high))
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        low, high = (low, middle) if reached(middle) else (middle, high)
    if exact or (whole and high - low <= 1):
        return high
    low, high = float(max(low / np.sqrt(_NEAR), within[0])), float(min(high * np.sqrt(_NEAR), within[1]))
    places = np.geomspace(low, high, _SMOOTHED)
    if whole:
        places = np.unique(np.rint(places))
    probits = stats.norm.ppf(np.clip([power(x) for x in places], 1e-4, 1 - 1e-4))
    slope, level = np.polyfit(np.log(places / low), probits, 1)
    if slope <= 0:
        return high
    smoothed = low * float(np.exp(np.clip((stats.norm.ppf(target) - level) / slope, 0.0, np.log(high / low))))
    return float(np.ceil(smoothed)) if whole else smoothed


def bracket(
    reached: Callable[[float], bool], start: float, within: tuple[float, float], *, whole: bool, stride: float = _STRIDE
) -> tuple[float, float] | None:
    """Two arguments, at most a stride apart, between which a target is first reached.

    They are equal if the smallest argument reaches it; None if it is not reached within the bounds.
    """

    def below(x: float) -> float:
        return max(x // stride if whole else x / stride, within[0])

    low = high = start
    if reached(start):
        while reached(low := below(high)):
            if low <= within[0]:
                return low, low
            high = low
    else:
        while not reached(high := min(np.ceil(low * stride) if whole else low * stride, within[1])):
            if high >= within[1]:
                return None
            low = high
    return low, high


def crossing(
    shortfall: Callable[[float], float],
    start: float,
    within: tuple[float, float],
    *,
    whole: bool,
    stride: float = _STRIDE,
    met: float = _MET,
) -> float | None:
    """Smallest argument at which a smooth, decreasing shortfall is 0; None if not within the bounds.

    Brackets as `smallest` does, then follows secants of the shortfall on the log scale, halving the weight of a
    retained end (the Illinois rule), until the shortfall is at most ``met``; bisects where it is infinite.
    """
    known: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in known:
            known[x] = shortfall(x)
        return known[x]

    found = bracket(lambda x: at(x) <= 0, start, within, whole=whole, stride=stride)
    if found is None or found[0] == found[1]:
        return None if found is None else found[0]
    (low, high), moved = found, 0
    above, below = at(low), at(high)
    if abs(below) <= met:
        return high
    while high > low * _CLOSE and not (whole and high - low <= 1):
        share = above / (above - below) if np.isfinite(above) else 0.5
        middle = float(low * (high / low) ** min(max(share, 0.02), 0.98))
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        value = at(middle)
        if abs(value) <= met:
            return middle
        if value <= 0:
            high, below, above = middle, value, above / 2 if moved < 0 else above
        else:
            low, above, below = middle, value, below / 2 if moved > 0 else below
        moved = -1 if value <= 0 else 1
    return high


def price_bounds(measure: Callable[[Privacy], object], kind: Privacy, own: Sequence[float]) -> tuple[float, float]:
    """Amounts of a unit that bound a search: the question takes them, and their noise can be drawn.

    ``measure`` raises DPInferError for other amounts; ``own`` are amounts known to be valid.
    """

    def measurable(amount: float) -> bool:
        try:
            measure(with_amount(kind, amount))
        except DPInferError:
            return False
        return True

    least, most = PRICES
    while most > max(own, default=0.0) and not measurable(most):
        most /= 2
        if most < least:
            break
    while least < min(own, default=most) and not measurable(least):
        least *= 2
    return min([least, *own]), max([most, *own])


def amount_of(price: Privacy) -> float:
    """Return the rho, epsilon or mu of privacy parameters."""
    return float(getattr(price, fields(cast("Any", price))[0].name))


def with_amount(price: Privacy, amount: float) -> Privacy:
    """Return privacy parameters of the same unit with another rho, epsilon or mu."""
    return cast("Privacy", replace(cast("Any", price), **{fields(cast("Any", price))[0].name: amount}))


def unit_of(price: Privacy) -> str:
    """Name the unit of privacy parameters, with its delta."""
    delta = getattr(price, "delta", None)
    return type(price).__name__ + ("" if delta is None else f", delta={delta:g}")


def three_digits_up(value: float) -> float:
    """Round up to three digits."""
    return float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(value)))


def four_digits_down(value: float) -> float:
    """Round down to four digits."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).plus(Decimal(value)))


# What a population is said to be: sums that a test sees in its samples

NO_NOISE = NoiseLaw("gaussian", (0.0,))
"""Law of the counts of the ordinary test."""

_SUM = 1e-8
_PARTS = ("share", "mean", "sd")


@dataclass(frozen=True, eq=False)
class CountTruth:
    """Counts in the cells of a table with probabilities (d,) or (r, c); see the methods of `MeanTruth`."""

    test: ChiSquare
    study: PowerStudy
    cells: Array
    least: int = 1

    @property
    def _axes(self) -> tuple[Any, ...]:
        axes, fixed = self.test.plan(self.study.schema).cells, self.test.fixed
        return axes if fixed is None or axes[0].name == fixed else axes[::-1]

    def _sizes(self, n: int) -> NDArray[np.int64]:
        """Sizes of the samples if fixed by design (r,)."""
        public = self.test.sample_sizes(self._axes[0])
        shares = self.cells.sum(axis=1) if public is None else public / public.sum()
        ends = np.rint(np.concatenate([[0.0], np.cumsum(shares)]) * n)
        return np.asarray(np.maximum(np.diff(ends), 1.0), dtype=np.int64)

    def model(self, n: int, price: Privacy | None) -> NullModel:
        """See `MeanTruth.model`."""
        test, noise, known, kind = self.test, CountNoise(NO_NOISE), True, "pearson"
        if price is not None:
            measured, kind = self.study.planned(price), test.statistic
            law = NoiseLaw(measured.law.family, measured.law.scales[:1], measured.law.draws)
            noise = CountNoise(law, measured.steps[0])
            known = measured.neighbors == "replace_one" and measured.rows.keeps_every_row
        public = test.fixed is not None and (price is None or test.sizes is not None)
        sizes = self._sizes(n).astype(np.float64) if public else None
        return test.null_model(self._axes, noise, n if known else None, sizes, kind)

    def expected(self, n: int) -> Array:
        """See `MeanTruth.expected`."""
        if self.test.fixed is None:
            return n * self.cells.ravel()
        return np.asarray((self._sizes(n)[:, None] * (self.cells / self.cells.sum(axis=1, keepdims=True))).ravel())

    def draw(self, n: int, model: Any, size: int, rng: np.random.Generator) -> Array:
        """See `MeanTruth.draw`."""
        if self.test.fixed is None:
            counts = rng.multinomial(n, self.cells.ravel(), size=size)
        else:
            sizes = np.broadcast_to(self._sizes(n), (size, len(self.cells)))
            conditional = self.cells / self.cells.sum(axis=1, keepdims=True)
            counts = rng.multinomial(sizes, conditional).reshape(size, -1)
        return np.asarray(counts + model.noise.rvs(counts.shape, rng))


@dataclass(frozen=True, eq=False)
class MeanTruth:
    """Sums of 1, u and u^2 in groups, u being the column scaled to [-1, 1]."""

    test: MeanComparison
    study: PowerStudy
    shares: Array
    means: Array
    spreads: Array

    @property
    def least(self) -> int:
        """Smallest number of rows."""
        return 2 * self.shares.size

    def model(self, n: int, price: Privacy | None) -> GroupMeans:  # noqa: ARG002  (of samples that are counted)
        """Return the hypothesis and the statistic; None as privacy parameters stands for the ordinary test."""
        test, question = self.test, self.test.plan(self.study.schema)
        if price is None:
            given = None if test.grouped else test.scaled_mean(question)
            plain = np.eye(3), np.zeros(3), 0
            return GroupMeans(*plain, self.shares.size, given, test.equal_var, test.alternative)
        measured = self.study.planned(price)
        nothing, steps = np.zeros((1, len(measured.names))), np.asarray(measured.steps)
        return test.model(question, nothing, law=measured.law, steps=steps)[0]

    def expected(self, n: int) -> Array:
        """Return the expected sums, without noise (m,)."""
        rows = n * self.shares
        return np.stack([rows, rows * self.means, rows * (self.means**2 + self.spreads**2)], axis=-1).ravel()

    def draw(self, n: int, model: Any, size: int, rng: np.random.Generator) -> Array:
        """Draw releases (size, m) with sampling and noise."""
        rows = rng.multinomial(n, self.shares, size=size).astype(np.float64)
        first = rows * self.means + self.spreads * np.sqrt(rows) * rng.standard_normal(rows.shape)
        within = 2 * self.spreads**2 * rng.standard_gamma(np.maximum(rows - 1, 0.0) / 2)
        second = within + first**2 / np.maximum(rows, 1.0)
        drawn = np.stack([rows, first, second], axis=-1) + model.noise(rows.shape, rng)
        return np.asarray(drawn.reshape(size, -1))


def _read_cells(truth: Any, test: ChiSquare, schema: Schema) -> Array:
    """Read probabilities of the cells, (d,) or (r, c), with the fixed axis first."""
    axes = test.plan(schema).cells
    labels = [list(axis.labels) for axis in axes]
    axes_named = " by ".join(f"{axis.name!r} ({', '.join(map(str, axis.labels))})" for axis in axes)
    right = f"probabilities of {axes_named}, not negative, that add up to 1"
    try:
        cells = np.asarray(_by_label(truth, labels, [axis.name for axis in axes]), dtype=np.float64)
    except (TypeError, ValueError, KeyError):
        cells = np.zeros(0)  # of a wrong shape: refused below, outside of a handler whose exception quotes the truth
    if cells.shape != tuple(map(len, labels)) or not (np.isfinite(cells) & (cells >= 0)).all():
        raise OptionError("truth", truth, right)
    if abs(float(cells.sum()) - 1) > _SUM:
        raise OptionError("truth", truth, f"{right}, not to {'more' if cells.sum() > 1 else 'less'}")
    if test.fixed == axes[-1].name:
        cells = cells.T
    if test.fixed is not None and not (cells.sum(axis=1) > 0).all():
        raise OptionError("truth", truth, f"a positive share of every sample of {test.fixed!r}")
    return np.asarray(cells / cells.sum())


def _by_label(truth: Any, labels: list[list[Any]], names: list[str]) -> Any:
    """Arrange a Series, DataFrame or mapping by labels; anything else is returned as it is.

    Raises
    ------
    KeyError
        If a label is missing or unknown.
    """
    if isinstance(truth, pd.Series) and len(names) > 1 and list(truth.index.names) == names[::-1]:
        truth = truth.swaplevel()
    if isinstance(truth, pd.DataFrame | pd.Series):
        listed = truth.stack() if isinstance(truth, pd.DataFrame) else truth  # noqa: PD013  (labels of both axes)
        truth = dict(zip(listed.index, listed, strict=True)) if truth.index.is_unique else {}
    if not isinstance(truth, Mapping):
        return truth
    keys = list(product(*labels)) if len(labels) > 1 else labels[0]
    if len(truth) != len(keys):
        raise KeyError(len(truth))
    return np.reshape([truth[key] for key in keys], [len(one) for one in labels])


def _read_moments(truth: Any, test: MeanComparison, schema: Schema) -> tuple[Array, Array, Array]:
    """Read shares, means and standard deviations of the groups, scaled to [-1, 1]; (G,) each."""
    question = test.plan(schema)
    if test.grouped:
        labels = question.cells[0].labels
        right = (
            f'a DataFrame with the columns "share", "mean" and "sd" and a row for each level of {test.by!r}: '
            f"{', '.join(map(str, labels))}; or a mapping from level to (share, mean, sd)"
        )
    else:
        right = '{"mean": ..., "sd": ...} of ' + question.expressions[0].text
    try:
        parts = np.asarray(_moments(truth, labels if test.grouped else None), dtype=np.float64)
    except (TypeError, ValueError, KeyError, AttributeError):
        parts = np.zeros(0)
    if parts.shape[1:] != (3,) or not np.isfinite(parts).all():
        raise OptionError("truth", truth, right)
    shares, means, spreads = parts.T
    if not (shares > 0).all() or abs(float(shares.sum()) - 1) > _SUM:
        raise OptionError("truth", truth, "positive shares that add up to 1")
    lower, upper = question.expressions[0].lower, question.expressions[0].upper
    most = np.sqrt(np.maximum((upper - means) * (means - lower), 0.0))
    if not ((lower <= means) & (means <= upper) & (spreads > 0) & (spreads <= most * (1 + _SUM))).all():
        bounds = f"[{lower:g}, {upper:g}] of {question.expressions[0].text}"
        right = f"means within the bounds {bounds}, and positive sd that values within them can have"
        raise OptionError("truth", truth, right)
    center, half = question.scaled
    return shares / shares.sum(), (means - center[0]) / half[0], spreads / half[0]


def _moments(truth: Any, labels: tuple[Any, ...] | None) -> list[list[Any]]:
    """Rows of share, mean and sd.

    Raises
    ------
    KeyError, TypeError
        If a part or a level is missing or unknown.
    """
    if labels is None:
        if set(truth.keys()) != set(_PARTS[1:]):
            raise KeyError(list(truth))
        return [[1.0, truth["mean"], truth["sd"]]]
    if isinstance(truth, pd.DataFrame):
        if set(truth.columns) != set(_PARTS) or not truth.index.is_unique:
            raise KeyError(list(truth.columns))
        truth = dict(zip(truth.index, truth[list(_PARTS)].to_numpy().tolist(), strict=True))
    if set(truth) != set(labels):
        raise KeyError(list(truth))
    rows = (truth[label] for label in labels)
    return [[row[part] for part in _PARTS] if isinstance(row, Mapping) else list(row) for row in rows]
