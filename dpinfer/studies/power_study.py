"""Power of a test, and the rows or the budget that it needs, before any budget is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.display.numbers import count
from dpinfer.display.progress import check_progress, watched
from dpinfer.display.report import Report, Reported, Table
from dpinfer.errors import DPInferError, OptionError
from dpinfer.inference.testing.binomial import binomial_power
from dpinfer.inference.testing.nulls import MOST_DRAWS, HidingModel
from dpinfer.kernel.sampling import check_scales
from dpinfer.privacy.units import NEIGHBORS, Privacy
from dpinfer.procedures.binomial import BinomTest
from dpinfer.procedures.mean_tests import MeanComparison
from dpinfer.results.style import FAINT, given_or_new, ink, legend, restrain, shades, titled
from dpinfer.schema.schema import Schema
from dpinfer.studies.power_search import (
    Power,
    amount_of,
    amounted,
    in_chunks,
    price_bounds,
    rejected,
    rejected_by_fits,
    smallest,
    three_digits_up,
    unit_of,
)
from dpinfer.studies.power_truth import (
    NO_NOISE,
    CountTruth,
    MeanTruth,
    Truth,
    is_number,
    is_whole,
    read_cells,
    read_moments,
    read_share,
)
from dpinfer.tables.chi_squared import ChiSquare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Neighbors

    Test = ChiSquare | BinomTest | MeanComparison

__all__ = ["PowerStudy", "power"]

_NULL_DRAWS = 4
"""Releases drawn under the hypothesis for each that is drawn under the truth."""

_AT_LEVEL = 100
"""Of them, the least number that should be beyond the critical value."""

_FEWEST, _MOST_ROWS = 100, 10**9
_STUDY, _SEARCH, _FOUND = range(3)


@dataclass(frozen=True, eq=False)
class PowerStudy(Reported):
    """Power of a test over numbers of rows and prices; made by `power`.

    Attributes
    ----------
    frame : DataFrame
        A row per number of rows and price; columns "n", "privacy", "power", "std err" (Monte Carlo; 0 where power is
        exact), "ordinary power", that of the ordinary test without privacy on the same population, and "lost": what
        the power has lost against a test that knew margins, variances and sizes of groups, where noise hides them and
        the test is conservative.
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
        population = self._population
        least = 1 if population is None else population.least
        if min(self.n) < least:
            raise OptionError("n", min(self.n), f"at least {least} rows: two for each group")
        for price in self.privacy:
            self._planned(price)
        ordinary = {n: self._power(n, None, _STUDY).power for n in self.n}
        asked = list(product(self.n, self.privacy))
        watch = watched(asked, "powers", total=len(asked), progress=self.progress)
        points = ((n, price, self._power(n, price, _STUDY)) for n, price in watch)
        rows = [(n, str(price), one.power, one.error, ordinary[n], one.lost) for n, price, one in points]
        names = ["n", "privacy", "power", "std err", "ordinary power", "lost"]
        object.__setattr__(self, "frame", pd.DataFrame(rows, columns=names))

    def __repr__(self) -> str:
        how = "exact" if self._population is None else f"{self.replicates:,} replicates"
        return (
            f"<PowerStudy: {self.test.text(self.schema)}, {len(self.n)} sizes x {len(self.privacy)} prices, "
            f"alpha {self.alpha:g}, {self.neighbors}, {how}>"
        )

    def _report(self) -> Report:
        draws = "exactly" if self._population is None else f"from {count(self.replicates)} replicates"
        facts = (("level", f"{self.alpha:g}"), ("neighbours", self.neighbors), ("computed", draws))
        title = f"Power of {self.test.text(self.schema)}"
        return Report(title, facts, (Table.of(self.frame, index=False),))

    def at(self, n: int, privacy: Privacy | None) -> float:
        """Return the power at another number of rows and price; at None that of the ordinary test."""
        return self._power(n, privacy, _STUDY).power

    def sample_size(self, power: float = 0.8) -> pd.DataFrame:
        """Find the smallest number of rows that gives a power, at every price.

        Parameters
        ----------
        power : float
            Between the level and 1.

        Returns
        -------
        DataFrame
            Indexed by price, as text; columns "n" (missing where a billion rows do not suffice, as where the truth
            meets the hypothesis), "power" and "std err" at that number of rows, from draws of their own.

        Raises
        ------
        OptionError
            If ``power`` is no such number.

        Notes
        -----
        Bisection from the nearest number of rows in the study, with draws of its own at every step; where power is
        simulated, a line is then fitted to probits of power within the last tenth. Power is taken to rise with n.
        """
        target, rows = self._target(power), []
        for price in self.privacy:
            own = self.frame[self.frame["privacy"] == str(price)]
            start = int(own["n"].iloc[int((own["power"] - target).abs().argmin())])
            least = 1 if self._population is None else self._population.least

            def at(n: float, price: Privacy = price) -> float:
                return self._power(int(n), price, _SEARCH).power

            found = smallest(at, target, start, (least, _MOST_ROWS), whole=True, exact=self._population is None)
            n = None if found is None else int(found)
            rows.append((n, *((np.nan, np.nan) if n is None else self._power(n, price, _FOUND)[:2])))
        frame = pd.DataFrame(rows, columns=["n", "power", "std err"])
        frame.index = pd.Index([str(price) for price in self.privacy], name="privacy")
        return frame.astype({"n": "Int64", "power": float, "std err": float})

    def budget(self, power: float = 0.8) -> pd.DataFrame:
        """Find the smallest price that gives a power, at every number of rows.

        Parameters
        ----------
        power : float
            Between the level and 1.

        Returns
        -------
        DataFrame
            A row per number of rows and unit of the study's prices; columns "n", "unit", "privacy" (the price itself,
            to three digits, rounded up; None where a thousand does not suffice), "power" and "std err" at that price,
            from draws of their own. The delta of an `ApproxDP` is kept.

        Raises
        ------
        OptionError
            If ``power`` is no such number.

        Notes
        -----
        Bisection between 1e-6 and 1e3 in rho, epsilon or mu, on the logarithm, or as near to these ends as the test can
        be measured; see `sample_size`.
        """
        target, rows = self._target(power), []
        for n, kind in product(self.n, dict.fromkeys(amounted(price, 1.0) for price in self.privacy)):
            powers = self.frame[self.frame["n"] == n].set_index("privacy")["power"]
            nearest = min(self._alike(kind), key=lambda price: abs(float(powers[str(price)]) - target))
            start = amount_of(nearest)

            def at(amount: float, n: int = n, kind: Privacy = kind) -> float:
                return self._power(n, amounted(kind, amount), _SEARCH).power

            found = smallest(at, target, start, self._bounds(kind), whole=False, exact=self._population is None)
            price = None if found is None else amounted(kind, three_digits_up(found))
            shown = (np.nan, np.nan) if price is None else self._power(n, price, _FOUND)[:2]
            rows.append((n, unit_of(kind), price, *shown))
        return pd.DataFrame(rows, columns=["n", "unit", "privacy", "power", "std err"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw power against the number of rows: a curve for every price, and the ordinary test dashed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

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

    def _planned(self, price: Privacy) -> Measurement:
        measured = self.test.measurement(price, schema=self.schema, neighbors=self.neighbors)
        check_scales(measured.law, measured.cost.price)
        return measured

    def _bounds(self, kind: Privacy) -> tuple[float, float]:
        """Amounts of a unit between which a budget is sought: the test takes them, and their noise can be drawn."""
        return price_bounds(self._measurable, kind, [amount_of(price) for price in self._alike(kind)])

    def _measurable(self, price: Privacy) -> bool:
        """Whether the test takes a price that was not among those given."""
        try:
            self._planned(price)
            if self._population is None:
                self._exact(1, price)
        except DPInferError:
            return False
        return True

    def _alike(self, kind: Privacy) -> list[Privacy]:
        return [price for price in self.privacy if amounted(price, 1.0) == kind]

    @cached_property
    def _population(self) -> Truth | None:
        """What samples look like; None where power is exact."""
        if isinstance(self.test, BinomTest):
            read_share(self.truth)
            return None
        if isinstance(self.test, ChiSquare):
            return CountTruth(self.test, read_cells(self.truth, self.test, self.schema), self._planned, self.schema)
        return MeanTruth(self.test, *read_moments(self.truth, self.test, self.schema), self._planned, self.schema)

    def _target(self, power: Any) -> float:
        if not (is_number(power) and self.alpha < power < 1):
            raise OptionError("power", power, f"a number between the level {self.alpha:g} and 1")
        return float(power)

    def _power(self, n: int, price: Privacy | None, stream: int) -> Power:
        """Power at one point; a price of None stands for the ordinary test."""
        population = self._population
        if population is None:
            return self._exact(n, price)
        rng = np.random.default_rng([self.seed, stream, n])
        model, size = population.model(n, price), self.replicates
        values = in_chunks(lambda some: population.draw(n, model, some, rng), size, population, n)
        moved = model.statistic(values)
        asked = self.test
        assert not isinstance(asked, BinomTest)  # whose power is exact
        if price is not None and getattr(asked, "null", "simulated") == "asymptotic":
            hit = moved >= stats.chi2.isf(self.alpha, model.dof)  # type: ignore[attr-defined]
            return Power(float(hit.mean()), float(hit.std() / np.sqrt(size)))
        if price is None and self.alpha < 1 / (MOST_DRAWS + 1):
            return Power(np.nan, np.nan)
        fitted = model.fit(population.expected(n)[None])
        draws = max(_NULL_DRAWS * size, int(min(_AT_LEVEL / self.alpha, MOST_DRAWS)))
        null = in_chunks(lambda some: model.statistic(model.draw(fitted, some, rng))[0], draws, population, n)
        if price is not None and isinstance(model, HidingModel):

            def true_null() -> Array:
                true = population.model(n, None).fit(population.expected(n)[None])
                return in_chunks(lambda some: model.statistic(model.draw(true, some, rng))[0], draws, population, n)

            return rejected_by_fits(model, (values, moved), (null, true_null), self.alpha, asked.draws, rng)
        return rejected(null, moved, self.alpha, "adaptive" if price is None else asked.draws)

    def _exact(self, n: int, price: Privacy | None) -> Power:
        test, law, step = cast("BinomTest", self.test), NO_NOISE, 1.0
        if price is not None:
            measured = self._planned(price)
            law, step = measured.law, measured.steps[0]
        found = binomial_power(
            n, test.p, float(self.truth), law, step=step, alpha=self.alpha, alternative=test.alternative
        )
        return Power(found, 0.0)


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
    """Compute the power of a test at numbers of rows and prices: free, and without any row.

    Parameters
    ----------
    test : ChiSquare, BinomTest or MeanComparison
        What `chisquare`, `chi2_contingency`, `binomtest`, `ttest_1samp`, `ttest_ind`, `ttest_rel` or `f_oneway`
        returns, bound to data or not. Data are not looked at, and nothing is charged.
    truth : object
        What the population is.

        - chisquare: probabilities of the levels, as array, Series or mapping by level.
        - chi2_contingency: joint probabilities of the cells, as a DataFrame or two-dimensional array (rows by
          columns), or a Series by both levels. With ``fixed=`` its margin is the shares of the samples, or these are
          in proportion to ``sizes=``, which are then scaled to n.
        - binomtest: the proportion.
        - ttest_1samp and ttest_rel: ``{"mean": 4.2, "sd": 1.1}``, of the column, or of the differences.
        - ttest_ind and f_oneway: a DataFrame with the columns "share", "mean" and "sd" and a row for each level; or a
          mapping from level to (share, mean, sd).
    n : int or sequence of int
        Numbers of rows that are counted: those that meet ``where=`` and are in a cell.
    privacy : Privacy or sequence of Privacy
        Prices; the study is of every number of rows at every price.
    schema : Schema, optional
        Needed where the test is not bound.
    neighbors : {"add_remove", "replace_one"}, optional
        That of the data; "add_remove" by default where the test is not bound.
    alpha : float
        Level of the test. Below 1e-5 no simulated p-value can reach it: power is then 0, and "ordinary power" NaN.
    replicates : int
        Simulated releases behind each power, at least 100.
    seed : int
        Public; draws no privacy noise. A power depends on it and on its own n and price alone.
    progress : bool, optional
        Whether a progress bar is shown; by default as `dpinfer.show_progress` says.

    Returns
    -------
    PowerStudy

    Raises
    ------
    OptionError
        If an argument has no such value: truth that does not match the levels or the bounds, numbers of rows that are
        none.
    DPInferError
        If the test cannot be measured at such a price, as from ``fit``.

    Notes
    -----
    Releases are drawn under the truth and under the hypothesis fitted to the expected sums of the truth, with the
    noise of the test's measurement, and the test's statistic computed of both: power is the share of the former whose
    p-value among the latter is at most alpha. The test itself refits the hypothesis to every noisy release. Where noise
    hides a margin of a table, a variance or the size of a group, it moves the fit and is conservative: of such releases
    up to 1,000 get p-values of their own, as the test computes them. "lost" is the power of the same statistic with a
    null simulated at the truth, less this power: negative by Monte Carlo error, or where another statistic serves.
    Elsewhere refitting is left out. In the designs on which the package's tests compare the two (independence with even
    and with uneven margins; one mean, from rows), the powers agree within four Monte Carlo standard errors, about 0.05.

    Means are taken to be of values whose sums are normal, and sums of squares gamma, as of normal values; the mean and
    standard deviation are those of clamped values. The sizes of groups are multinomial.

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
    if not isinstance(test, ChiSquare | BinomTest | MeanComparison):
        good = "chisquare, chi2_contingency, binomtest, ttest_1samp, ttest_ind, ttest_rel or f_oneway"
        raise OptionError("test", test, f"a test made by {good}")
    schema = schema if schema is not None else getattr(test.source, "schema", None)
    if not isinstance(schema, Schema):
        raise OptionError("schema", schema, "a Schema, or a test that is bound to data")
    neighbors = neighbors if neighbors is not None else getattr(test.source, "neighbors", "add_remove")
    if neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    prices = (privacy,) if isinstance(privacy, Privacy) else privacy
    right = isinstance(prices, Sequence) and len(prices) and all(isinstance(price, Privacy) for price in prices)
    if not right:
        raise OptionError("privacy", privacy, "one or more prices such as ZCDP(0.1)")
    if not (is_number(alpha) and 0 < alpha < 1):
        raise OptionError("alpha", alpha, "a number between 0 and 1")
    if not (is_whole(replicates) and replicates >= _FEWEST):
        raise OptionError("replicates", replicates, f"a whole number, at least {_FEWEST}")
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative")
    check_progress(progress)
    plain = replace(test, source=None)
    kept = tuple(dict.fromkeys(prices))
    numbers = float(alpha), int(replicates), int(seed)
    return PowerStudy(plain, truth, _read_sizes(n), kept, schema, neighbors, *numbers, progress)


def _read_sizes(n: Any) -> tuple[int, ...]:
    sizes = list(n) if isinstance(n, Sequence | np.ndarray) and not isinstance(n, str) else [n]
    if not sizes or not all(is_whole(size) and 1 <= size <= _MOST_ROWS for size in sizes):
        raise OptionError("n", n, f"one or more whole numbers of rows from 1 to {_MOST_ROWS:,}")
    return tuple(dict.fromkeys(int(size) for size in sizes))
