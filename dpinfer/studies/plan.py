"""Planning a study: privacy parameters, rows, or the precision they give, before any budget is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from dpinfer.checks import is_finite, is_whole, of_type
from dpinfer.display.progress import check_progress, watch
from dpinfer.display.report import Report, Reported, Table, count
from dpinfer.errors import DPInferError, OptionError, cut, kind_of, names_of, type_of
from dpinfer.kernel.stage import Context, Data
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Neighbors, Privacy, PureDP
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.drawing import FAINT, given_or_new, legend, restrain
from dpinfer.studies.forecasts import START, Fitted, Question, Summed, Tested, outlook_of
from dpinfer.studies.populations import ReleasePilot
from dpinfer.studies.power import (
    PRICES,
    amount_of,
    crossing,
    four_digits_down,
    price_bounds,
    public_facts,
    three_digits_up,
    unit_of,
    with_amount,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.forecasts import Depth, Forecast, Outlook

__all__ = ["Plan", "SharedPlan", "plan"]

TARGETS = ("width", "power", "rmse", "relative")
"""What may be asked for."""

_TITLE = "Plan: nothing is charged yet"

_USUAL = (0.1, 1.0, 0.01, 10.0, 0.001, 100.0)
"""Amounts of a unit from which a search starts: the first that the question takes."""

_ROUGHLY, _NEAR = 0.008, 1.1
"""Shortfall that is near enough for a first search, and the stride of the second one."""

_POINTS, _SLOW_POINTS, _REACH = 9, 5, 10.0
"""Points of a curve, of one that rows are fitted for, and how far it goes to either side."""

_MISSED = 0.05
"""Shortfall, of a logarithm or a probit, from which an answer says that it misses its target."""

_FEW_SHOWN = 4
"""Terms that a figure shows unless others are named."""

_NOTHING = 1e-3
"""Share of a width at the whole budget below which sampling counts as no part of it."""

_LEAST_SHARE = 1e-3
"""Least share of a budget at which the relative width of a question is looked at."""


def plan(
    procedure: Procedure | Sequence[Procedure],
    *,
    schema: Schema | None = None,
    n: int | None = None,
    privacy: Privacy | None = None,
    unit: type[Privacy] | Privacy | None = None,
    width: Any = None,
    power: Any = None,
    rmse: Any = None,
    relative: Any = None,
    alpha: float = 0.05,
    assurance: float = 0.5,
    pilot: Any = None,
    neighbors: Neighbors | None = None,
    budget: Privacy | None = None,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    progress: bool | None = True,
) -> Plan | SharedPlan:
    """Plan a question before any budget is spent: solve for rows, privacy parameters or precision.

    Nothing is charged and no confidential row is read, even if the question is bound to data.

    Parameters
    ----------
    procedure : Procedure, or sequence of Procedure
        The question, such as ``dpi.ols("income ~ age")``, bound to data or not. Several questions share ``budget``.
    schema : Schema, optional
        Required if the question is not bound to data.
    n : int, optional
        Number of rows: public, planned, or from an earlier release. If nothing else is missing, it is taken from bound
        data whose number of rows is public, or from a pilot release.
    privacy : Privacy, optional
        The privacy parameters.
    unit : type of Privacy, or Privacy, optional
        Unit in which to solve for the privacy parameters; for `ApproxDP` give an amount, whose delta is kept. By
        default that of the ledger if the question is bound to confidential data (`GDP` for an `ApproxDP` ledger), else
        `ZCDP`.
    width : float or mapping of term to float, optional
        Largest full width of intervals of level ``1 - alpha``.
    power : float or mapping of term to (effect, power), optional
        Required power of the two-sided test of zero when the true value is ``effect``, by default the value in the
        population. If the question is a test, its required power against the population.
    rmse : float or mapping of term to float, optional
        Largest root mean squared error.
    relative : float or mapping of term to float, optional
        Largest ratio of the width to that without privacy on the same number of rows; above 1.
    alpha : float
    assurance : float
        Probability with which widths are reached: .5 refers to their median.
    pilot : optional
        The population: a `Release` of the question, already charged; `PublicData` or a frame of similar public rows,
        resampled with replacement; or a function ``generate(rng, n)``. By default the schema's uniform population,
        which the answer states. A test needs a pilot, since its hypothesis may hold in the uniform population; its
        pilot may also be the true values, as `power` takes them.
    neighbors : {"add_remove", "replace_one"}, optional
        By default that of the bound data, else "add_remove".
    budget : Privacy, optional
        With several questions, the budget that they share.
    weights : sequence of float, optional
        With several questions, minimize the sum of relative widths with these weights, instead of the largest one.
    seed : int
        Seed of the simulation; public. The noise of a release has no seed.
    progress : bool or None
        Whether to show a progress bar when data sets are fitted one by one; None takes the setting of
        `dpinfer.show_progress`.

    Returns
    -------
    Plan, or SharedPlan
        A `SharedPlan` if several questions are given.

    Raises
    ------
    OptionError
        If not exactly one of ``n``, ``privacy`` and the targets is missing (``n`` and ``privacy`` alone give width and
        power); if a term is unknown or a target is not a positive number; or if no budget, or no number of rows,
        reaches the target. The message then gives the result of sampling alone, and a number of rows that would
        suffice.
    UnknownColumnError
        If the pilot lacks a column.
    DPInferError
        If the question cannot be measured with such privacy parameters, or a pilot does not inform it.

    Notes
    -----
    Widths are those of the library's own inference on simulated releases: sums of data sets drawn from the population,
    plus noise of the scale that the kernel states. All privacy parameters use common random numbers, so that the search
    follows a smooth curve. See the page on planning for formulas and measured limits.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> found = dpi.plan(dpi.mean("age"), schema=schema, n=2000, width=3.0)
    >>> 0.0005 < found.privacy.rho < 0.005
    True
    """
    several = [procedure] if isinstance(procedure, Procedure) else procedure
    if not (isinstance(several, Sequence) and several and all(isinstance(one, Procedure) for one in several)):
        raise OptionError("procedure", type_of(procedure), 'a question such as dpi.ols("y ~ x"), or several')
    for name, value in (("alpha", alpha), ("assurance", assurance)):
        if not (is_finite(value) and 0 < value < 1):
            raise OptionError(name, value, "a number between 0 and 1")
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative")
    check_progress(progress)
    source = several[0].source
    schema, neighbors = public_facts(source, schema, neighbors, "a question that is bound to data")
    bound = source if isinstance(source, Data) else None
    price = privacy if privacy is not None else budget
    if price is not None and not isinstance(price, Privacy):
        raise OptionError("privacy", price, "an amount such as ZCDP(0.1)")
    kind = _kind(unit, bound, price)
    given = {"width": width, "power": power, "rmse": rmse, "relative": relative}
    if not isinstance(procedure, Procedure):
        _check_several(several, {"privacy": privacy, **given}, assurance, budget)
    elif budget is not None or weights is not None:
        shown = budget if weights is None else type_of(weights)
        raise OptionError("budget", shown, "several questions that share it; for one question use privacy=")
    nobs = None if bound is None else bound.nobs
    with watch("fits of public rows", progress=progress) as counted:
        planned = []
        for one in several:
            numbers = float(alpha), int(seed)
            question = _question(replace(one, source=None), schema, neighbors, *numbers, kind, counted)
            planned.append(outlook_of(question, pilot))
        if isinstance(procedure, Procedure):
            return _answered(planned[0], nobs, n, privacy, given, float(assurance))
        return _shared(planned, _rows(planned[0], nobs, n), cast("Privacy", budget), weights)


def _check_several(several: Sequence[Procedure], named: Mapping[str, Any], assurance: float, budget: Any) -> None:
    """Refuse arguments that several questions cannot have, and data that differ in schema or neighbours."""
    for name, value in named.items():
        if value is not None:
            raise OptionError(name, type_of(value), "None: several questions share budget=, for their widths")
    if assurance != 0.5:
        raise OptionError("assurance", assurance, "0.5: several questions share budget= by median widths")
    sources = [one.source for one in several if isinstance(one.source, Data)]
    if any((one.schema, one.neighbors) != (sources[0].schema, sources[0].neighbors) for one in sources):
        raise OptionError("procedure", type_of(several), "questions that are bound to data of one schema and neighbors")
    of_type(Privacy, "budget", budget, "a budget for the questions to share, such as ZCDP(1.0)")


def _kind(unit: Any, bound: Any, price: Privacy | None) -> Privacy:
    """Return an amount in the unit to solve for."""
    named = any(unit is one for one in (ZCDP, GDP, PureDP))
    if not (unit is None or named or isinstance(unit, Privacy)):
        raise OptionError("unit", unit, "ZCDP, GDP or PureDP, or an amount such as ApproxDP(1.0, 1e-6)")
    if price is not None:
        return price
    if isinstance(unit, Privacy):
        return with_amount(unit, _USUAL[0])
    if unit is None:
        ledger = getattr(bound, "ledger", None)
        unit = ZCDP if ledger is None else type(ledger.budget)
    found: Privacy = (GDP if unit is ApproxDP else unit)(_USUAL[0])
    return found


def _question(
    procedure: Procedure, schema: Schema, neighbors: Neighbors, alpha: float, seed: int, kind: Privacy, watch: Any
) -> Question:
    """Return the question to plan, with the columns read and privacy parameters that it takes."""
    procedure.check(schema, neighbors)
    first: DPInferError | None = None
    for price in (kind, *(with_amount(kind, amount) for amount in _USUAL)):
        found = Question(procedure, schema, neighbors, alpha, seed, price, watch)
        context = Context(schema, neighbors, price, public=True)
        try:
            read = {*found.measured(START, price).columns, *procedure.columns_read(context)}
        except DPInferError as error:
            first = first or error
        else:
            return replace(found, schema=schema.select([name for name in schema if name in read] or list(schema)[:1]))
    raise cast("DPInferError", first)


# What is asked for


@dataclass(frozen=True, eq=False)
class Targets:
    """The targets of a plan, by kind and term.

    Attributes
    ----------
    wanted : mapping of str to mapping of term to value
        For "width", "rmse" and "relative" the largest value allowed. For "power" the true value, or None for the
        population's own, and the least power.
    assurance : float
        Probability with which a width is to be reached.
    """

    wanted: Mapping[str, Mapping[str, Any]]
    assurance: float

    @classmethod
    def read(cls, names: Sequence[str], given: Mapping[str, Any], *, alpha: float, assurance: float) -> Targets:
        """Read targets, each a number for all terms or a mapping by term; OptionError if one is invalid."""
        right = (
            f'a power between {alpha:g} and 1, by term with the true value, as in power={{"age": (0.02, 0.8)}}; '
            "without the value it is the population's own"
        )
        wanted: dict[str, dict[str, Any]] = {}
        for option in TARGETS:
            value = given[option]
            unknown = [name for name in value if name not in names] if isinstance(value, Mapping) else []
            if unknown or (isinstance(value, Mapping) and not value):
                raise OptionError(option, names_of(unknown), f"terms among {', '.join(names[:20])}")
            by_term = {} if value is None else value if isinstance(value, Mapping) else dict.fromkeys(names, value)
            least, wanted[option] = 1.0 if option == "relative" else 0.0, {}
            for name, one in by_term.items():
                if option == "power":
                    pair = one if isinstance(one, tuple | list) else (None, one)
                    fits = len(pair) == 2 and (pair[0] is None or is_finite(pair[0])) and is_finite(pair[1])
                    if not (fits and alpha < pair[1] < 1 and pair[0] != 0):
                        raise OptionError(option, value if is_finite(value) else type_of(value), right)
                    wanted[option][name] = (None if pair[0] is None else float(pair[0]), float(pair[1]))
                elif is_finite(one) and one > least:
                    wanted[option][name] = float(one)
                else:
                    usual = f"a number above {least:g} for all terms, or such numbers by term, as in {option}"
                    shown = type_of(value) if isinstance(value, Mapping) else value
                    raise OptionError(option, shown, f'{usual}={{"age": ...}}')
        return cls(wanted, assurance)

    def effects(self, forecast: Forecast) -> Array:
        """Return the true values at which power is computed (p,); by default the population's own."""
        given = {name: effect for name, (effect, _) in self.wanted["power"].items() if effect is not None}
        return np.array([given.get(name, own) for name, own in zip(forecast.names, forecast.center, strict=True)])

    def values(self, name: str, forecast: Forecast) -> Array:
        """Return the forecast values of a target (p,)."""
        if name == "power":
            return forecast.power(self.effects(forecast))
        return forecast.rmse if name == "rmse" else forecast.width(self.assurance)

    def gaps(self, forecast: Forecast, alone: Forecast | None) -> dict[tuple[str, str], float]:
        """Return the gap between a forecast and each target: 0 or less if the target is met.

        Widths and errors are compared as logarithms, powers as probits. ``alone`` is the forecast without noise.
        """
        out: dict[tuple[str, str], float] = {}
        for name in ("width", "rmse", "relative", "power"):
            terms = self.wanted[name]
            if not terms or (name == "relative" and alone is None):
                continue
            values = self.values(name, forecast)
            if name == "relative":
                values = values / cast("Forecast", alone).width()
            for term, most in terms.items():
                at = float(values[forecast.names.index(term)])
                if name == "power":
                    reached = stats.norm.ppf(np.clip(at, 1e-9, 1 - 1e-9))
                    out[name, term] = float(stats.norm.ppf(most[1]) - reached)
                else:
                    out[name, term] = np.inf if np.isnan(at) else float(np.log(max(at, 1e-300) / most))
        return out

    def shortfall(self, forecast: Forecast, alone: Forecast | None) -> float:
        """Return the largest gap."""
        return max([-np.inf, *self.gaps(forecast, alone).values()])

    def unreached(self, right: str, name: str = "", term: str = "") -> OptionError:
        """Return the error for a target that is not reached, by default the first with all its terms."""
        name = name or next(name for name in TARGETS if self.wanted[name])
        terms = {term: self.wanted[name][term]} if term else self.wanted[name]
        listed = (f"{one}: {most[1] if name == 'power' else most:g}" for one, most in terms.items())
        return OptionError(name, cut(", ".join(listed)), right)


def _alone(outlook: Outlook, n: int) -> Forecast | None:
    """Forecast sampling alone; None if that is not possible."""
    with suppress(DPInferError):
        return outlook.alone(n)
    return None


def _answered(
    outlook: Outlook, nobs: int | None, n: Any, privacy: Any, given: dict[str, Any], assurance: float
) -> Plan:
    """Solve for the missing quantity."""
    question, test = outlook.question, isinstance(outlook, Tested)
    wanted = [name for name in given if given[name] is not None]
    missing = [name for name, known in (("n", n is not None), ("privacy", privacy is not None)) if not known]
    if wanted and not missing and not test and (wanted != ["power"] or is_finite(given["power"])):
        raise OptionError("n", n, "None: with n, privacy and a target there is nothing to solve for")
    if "n" in missing and (len(missing) > 1 or not wanted):
        n, missing = _rows(outlook, nobs, None), [one for one in missing if one != "n"]
    if len(missing) == 1 and not wanted:
        raise OptionError(
            "privacy", None, "privacy parameters, or a target such as width={...}: two of the three are needed"
        )
    if n is not None:
        n = _rows(outlook, nobs, n)
    start = int(min(max(outlook.rows_behind or START, outlook.least), outlook.most))
    targets = _targets(outlook, given, n or start, privacy or question.known, assurance)
    if missing:
        n, privacy = _solved(outlook, n, privacy, start, targets)
    solved = cast("Any", missing[0] if missing else None)
    found, alone = outlook.at(n, privacy, depth="answer"), _alone(outlook, n)
    notes = _notes(outlook, found, targets, alone)
    if (solved == "privacy" and amount_of(privacy) <= PRICES[0]) or (solved == "n" and n <= outlook.least):
        notes.append("This is the smallest value searched: less may be enough.")
    frame = _frame(found, alone, targets)
    words = outlook.about, question.procedure.text(question.schema), tuple(notes)
    return Plan(n, privacy, solved, frame, found.alpha, assurance, question.neighbors, *words, outlook, targets)


def _rows(outlook: Outlook, nobs: int | None, n: Any) -> int:
    """Return the number of rows as given, public or released."""
    if n is None:
        known = nobs if nobs is not None else outlook.rows_behind
        if known is None:
            raise OptionError(
                "n", None, "a number of rows, privacy parameters or a target: only one of the three is solved for"
            )
        n = max(round(known), 1)
    if not (is_whole(n) and outlook.least <= n <= outlook.most):
        raise OptionError("n", n, f"a whole number from {outlook.least} to {outlook.most:,}")
    return int(n)


def _targets(outlook: Outlook, given: dict[str, Any], n: int, price: Privacy, assurance: float) -> Targets:
    question = outlook.question
    wanted = [name for name in TARGETS if given[name] is not None]
    for name in wanted:
        if isinstance(outlook, Tested) and name != "power":
            raise OptionError(name, type_of(given[name]), "None: a test has only power")
    names = outlook.at(n, price).names if wanted else ()
    targets = Targets.read(names, given, alpha=question.alpha, assurance=assurance)
    relative = targets.wanted["relative"]
    if relative:  # not of what has no sampling error
        alone, priced = outlook.alone(n), outlook.at(n, question.known)
        sampled = zip(alone.names, alone.width() > _NOTHING * priced.width(), strict=True)
        without = [name for name, one in sampled if name in relative and not one]
        if without:
            right = "terms with a sampling error: for others use width="
            raise OptionError("relative", names_of(without), right)
    return targets


def _solved(outlook: Outlook, n: Any, privacy: Any, start: int, targets: Targets) -> tuple[int, Privacy]:
    """Solve for rows or privacy parameters: roughly at first, then with more releases near the solution."""
    kind, rows, relative = outlook.question.known, n is None, targets.wanted["relative"]
    alone = None if rows else _alone(outlook, n)
    if alone is not None and not relative and targets.shortfall(alone, None) > 0:
        raise _no_price(outlook, n, targets, alone)
    found: Any
    if isinstance(outlook, Tested):
        least = next(iter(targets.wanted["power"].values()))[1]
        found = outlook.rows(privacy, least) if rows else outlook.price(n, kind, least)
    else:

        def shortfall(x: float, depth: Depth) -> float:
            at, price = (int(x), privacy) if rows else (n, with_amount(kind, x))
            without = outlook.alone(at) if rows and relative else alone
            return targets.shortfall(outlook.at(at, price, depth=depth), without)

        begin, within = float(start), (float(outlook.least), float(outlook.most))
        if not rows:
            begin = amount_of(kind)
            within = price_bounds(lambda price: outlook.question.measured(n, price), kind, [begin])
        found = crossing(lambda x: shortfall(x, "width"), begin, within, whole=rows, met=_ROUGHLY)
        if found is not None and not outlook.slow:
            found = crossing(lambda x: shortfall(x, "share"), found, within, whole=rows, stride=_NEAR)
        if found is not None:
            found = int(found) if rows else with_amount(kind, three_digits_up(found))
    if found is None:
        reached = f"{outlook.most:,} rows reach at {privacy}: use a larger privacy budget"
        if not rows:
            reached = f"some {unit_of(kind)} reaches at n = {n:,}: use more rows"
        raise targets.unreached(f"a target that {reached}, or ask for less")
    return (found, privacy) if rows else (n, found)


def _no_price(outlook: Outlook, n: int, targets: Targets, alone: Forecast) -> OptionError:
    """State the result of sampling alone, and about how many rows would suffice, rounded up to three digits."""
    gaps = targets.gaps(alone, None)
    name, term = max(gaps, key=lambda key: gaps[key])
    value = float(targets.values(name, alone)[alone.names.index(term)])

    def shortfall(rows: float) -> float:
        return targets.shortfall(outlook.alone(int(rows)), None)

    found = crossing(shortfall, float(n), (float(n), float(outlook.most)), whole=True)
    least = None if found is None else int(np.ceil(three_digits_up(found)))
    enough = "no number of rows that can be planned" if least is None else f"at least {least:,} rows"
    right = (
        f"a target that sampling allows: no privacy budget helps, because n = {n:,} is too small. Without any noise "
        f"{name} is {value:.4g}; {enough} would be enough"
    )
    return targets.unreached(right, name, term)


# The answer


def _frame(found: Forecast, alone: Forecast | None, targets: Targets) -> pd.DataFrame:
    effects = targets.effects(found)
    powers = found.power(effects)
    if np.isnan(found.center).all():
        ordinary = np.full(1, np.nan) if alone is None else alone.power(effects)
        return pd.DataFrame({"power": powers, "ordinary power": ordinary}, index=list(found.names))
    width = found.width(targets.assurance)
    without = np.full(len(width), np.nan) if alone is None else alone.width()
    with np.errstate(all="ignore"):
        relative = width / without
    columns = {"true value": effects, "width": width, "without noise": without, "relative": relative}
    return pd.DataFrame({**columns, "rmse": found.rmse, "power": powers}, index=list(found.names))


def _notes(outlook: Outlook, found: Forecast, targets: Targets, alone: Forecast | None) -> list[str]:
    """Describe the computation, and name the targets that the releases do not determine or miss."""
    notes = []
    if outlook.about.startswith("uniform"):
        notes.append(
            "No pilot: this assumes uniform, independent columns, which real ones seldom are. Use pilot= for what is "
            "known."
        )
    if isinstance(outlook, Tested):
        notes.append("Power at the population's values, by the same study as dpinfer.power.")
    else:
        if isinstance(outlook, Summed | Fitted):
            how = "sums of data sets" if isinstance(outlook, Summed) else "fits of data sets"
            notes.append(f"Simulated: {len(found.params):,} {how}, with noise of the kernel's scale.")
        if not found.counted:
            notes.append("Errors and powers use the standard errors of the inference.")
        if isinstance(outlook.pilot, ReleasePilot):
            notes.append("The pilot release describes the population with its noise included.")
        unbounded = [name for name, width in zip(found.names, found.width(), strict=True) if not np.isfinite(width)]
        if unbounded:
            notes.append(f"Unbounded intervals in most releases: {', '.join(unbounded[:5])}.")
        if targets.assurance != 0.5 and not found.sampled and not np.isnan(found.center).all():
            notes.append(
                "A pilot release has no samples to draw from: assurance accounts for noise at most, not for sampling."
            )
    gaps = targets.gaps(found, alone)
    if max([-np.inf, *gaps.values()]) > _MISSED:
        name, term = max(gaps, key=lambda key: gaps[key])
        notes.append(
            f"The {name} of {term} is not quite what was asked for, within the Monte Carlo error of these releases."
        )
    return notes


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Reported):
    """The rows, privacy parameters and precision of a planned study, as `plan` returns them.

    Attributes
    ----------
    n : int
        Number of rows.
    privacy : Privacy
        The privacy parameters.
    solved : {"n", "privacy", None}
        The one that was solved for; None if both were given.
    frame : DataFrame
        A row for each term: "true value" (at which power is computed), "width" (full width, reached with the requested
        assurance), "without noise" (the width from sampling alone), "relative" (their ratio), "rmse", and "power" of
        the two-sided test of zero.
    alpha, assurance : float
    population : str
        The assumed population, in words.
    notes : tuple of str
    """

    n: int
    privacy: Privacy
    solved: Literal["n", "privacy"] | None
    frame: pd.DataFrame = field(repr=False)
    alpha: float
    assurance: float
    neighbors: Neighbors
    population: str
    text: str
    notes: tuple[str, ...]
    _outlook: Outlook = field(repr=False)
    _targets: Targets = field(repr=False)

    @property
    def width(self) -> pd.Series:
        """Full width of the interval for each term; empty for a test."""
        return self.frame["width"] if "width" in self.frame else pd.Series(dtype=float, name="width")

    @property
    def power(self) -> pd.Series:
        """Power of the two-sided test of each term, or of the planned test."""
        return self.frame["power"]

    def summary_frame(self) -> pd.DataFrame:
        """Return a copy of the table."""
        return self.frame.copy()

    def curve(self, against: Literal["privacy", "n"], terms: Sequence[str] | None = None) -> pd.DataFrame:
        """Compute widths and power over a range of privacy parameters or numbers of rows.

        Parameters
        ----------
        against : {"privacy", "n"}
            The quantity to vary; the other stays as planned.
        terms : sequence of str, optional
            By default the first four.

        Returns
        -------
        DataFrame
            A row for each amount and term, with columns "n", "amount", "term", "width", "without noise" and "power".

        Raises
        ------
        OptionError
            If a term is unknown, or ``against`` is neither.
        """
        if against not in ("privacy", "n"):
            raise OptionError("against", against, ("privacy", "n"))
        outlook, rows, known = self._outlook, [], list(self.frame.index)
        shown = known[:_FEW_SHOWN] if terms is None else list(terms)
        unknown = [name for name in shown if name not in known]
        if unknown or isinstance(terms, str):
            raise OptionError("terms", names_of(unknown or [terms]), f"a list of terms among {', '.join(known[:20])}")
        planned = amount_of(self.privacy) if against == "privacy" else float(self.n)
        alone = _alone(outlook, self.n) if against == "privacy" else None
        for at in planned * np.geomspace(1 / _REACH, _REACH, _SLOW_POINTS if outlook.slow else _POINTS):
            n = self.n if against == "privacy" else int(np.clip(round(at), outlook.least, outlook.most))
            price = with_amount(self.privacy, float(at)) if against == "privacy" else self.privacy
            with suppress(DPInferError):  # beyond what can be measured
                part = _frame(outlook.at(n, price), alone or _alone(outlook, n), self._targets).loc[shown]
                rows.append(part.rename_axis("term").reset_index().assign(n=n, amount=amount_of(price)))
        names = ["n", "amount", "term", "width", "without noise", "power"]
        return pd.concat(rows, ignore_index=True).reindex(columns=names)

    def plot(self, terms: Sequence[str] | None = None, axes: Any = None) -> Array:
        """Plot width and power against the privacy parameter and against the number of rows.

        Dashed lines show sampling alone; the dotted line marks the plan. A test has power only.

        Parameters
        ----------
        terms : sequence of str, optional
            By default the first four.
        axes : ndarray of matplotlib.axes.Axes (2, 2), or (1, 2) for a test, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ndarray of matplotlib.axes.Axes

        Raises
        ------
        OptionError
            If a term is unknown, or ``axes`` has another shape.
        """
        measures = ["power"] if isinstance(self._outlook, Tested) else ["width", "power"]
        if axes is None:
            from matplotlib import pyplot as plt  # noqa: PLC0415  (imported when first needed)

            size = (9.0, 3.4 * len(measures))
            axes = plt.subplots(len(measures), 2, figsize=size, layout="constrained", squeeze=False)[1]
        found = np.asarray(axes, dtype=object)
        if found.shape != (len(measures), 2):
            raise OptionError("axes", kind_of(axes), f"an array of Axes of shape ({len(measures)}, 2)")
        places = (("privacy", "amount", amount_of(self.privacy)), ("n", "n", float(self.n)))
        for column, (against, place, planned) in zip(found.T, places, strict=True):
            curve = self.curve(cast("Any", against), terms)
            for ax, measure in zip(column, measures, strict=True):
                for number, (term, part) in enumerate(curve.groupby("term", sort=False)):
                    shown = part[np.isfinite(part[measure])]
                    ax.plot(shown[place], shown[measure], "o-", ms=3, color=f"C{number}", label=str(term))
                    if measure == "width":
                        ax.plot(part[place], part["without noise"], "--", lw=0.9, color=f"C{number}")
                ax.set(xscale="log", **({"yscale": "log"} if measure == "width" else {"ylim": (0, 1.03)}))
                restrain(ax)
                ax.axvline(planned, color=FAINT, lw=0.8, ls=":")
                ax.set(xlabel=unit_of(self.privacy) if against == "privacy" else "rows", ylabel=measure)
        legend(found[0, 0])
        found[0, 0].figure.suptitle(self.text, fontsize="medium")
        return found

    def _report(self) -> Report:
        rows, price = (" (solved)" if self.solved == name else "" for name in ("n", "privacy"))
        facts = (
            ("question", self.text),
            ("rows", f"{self.n:,}{rows}"),
            ("privacy", f"{self.privacy}{price}: {self.privacy.describe()}"),
            ("neighbours", self.neighbors),
            ("population", self.population),
        )
        return Report(_TITLE, facts, (Table.of(self.frame),), self.notes)


# One budget for several questions


@dataclass(frozen=True, eq=False, repr=False)
class SharedPlan(Reported):
    """The shares of a budget among several questions, as `plan` returns them.

    Attributes
    ----------
    frame : DataFrame
        A row for each question: "share" (of the amount that composes), "privacy" (its parameters), "relative" (the
        largest ratio of a term's width to that without noise or, for terms without sampling error such as a count of
        these rows, to that at the whole budget), and "widest" (that term).
    prices : tuple of Privacy
        Privacy parameters in the order of the questions; together they stay within the budget.
    n : int
    budget : Privacy
    population : str
    """

    frame: pd.DataFrame = field(repr=False)
    prices: tuple[Privacy, ...]
    n: int
    budget: Privacy
    population: str
    _curves: tuple[tuple[Array, Array], ...] = field(repr=False)

    def summary_frame(self) -> pd.DataFrame:
        """Return a copy of the table."""
        return self.frame.copy()

    def _report(self) -> Report:
        budget = f"{self.budget}: {self.budget.describe()}"
        facts = (("budget", budget), ("rows", count(self.n)), ("population", self.population))
        return Report(_TITLE, facts, (Table.of(self.frame),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the relative width of each question against its share; points mark the plan.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6, 4)
        places = zip(self._curves, self.frame.index, self.frame["share"], self.frame["relative"], strict=True)
        for number, ((shares, ratios), name, share, ratio) in enumerate(places):
            ax.plot(shares, ratios, "-", color=f"C{number}", label=str(name))
            ax.plot([share], [ratio], "o", ms=6, color=f"C{number}")
        ax.set(xscale="log", yscale="log", xlabel=f"share of {self.budget}", ylabel="width over that without noise")
        restrain(ax)
        legend(ax)
        return ax


def _shared(planned: Sequence[Outlook], n: int, budget: Privacy, weights: Any) -> SharedPlan:
    """Share a budget among questions, minimizing the largest relative width or a weighted sum.

    Raises
    ------
    OptionError
        If weights are not positive numbers, one for each question, or a question has no width.
    """
    many, listed = len(planned), None
    if weights is not None:
        sized = not isinstance(weights, str) and hasattr(weights, "__len__") and len(weights) == many
        if not (sized and all(is_finite(one) and one > 0 for one in weights)):
            raise OptionError("weights", type_of(weights), f"{many} numbers above 0, one for each question")
        listed = np.array(list(weights), dtype=np.float64)
    usual = []
    for one in planned:
        # Of what has no sampling error, such as a count of these rows, the width at the whole budget.
        alone, whole = one.alone(n).width(), one.at(n, budget).width()
        usual.append(np.asarray(np.where(alone > _NOTHING * whole, alone, whole)))

    def relative(place: int, price: Privacy) -> tuple[float, str]:
        """Return the largest relative width of a question, and its term."""
        found = planned[place].at(n, price)
        with np.errstate(all="ignore"):
            ratios = found.width() / usual[place]
        widest = int(np.argmax(np.where(np.isnan(ratios), -np.inf, ratios)))
        return float(ratios[widest]), found.names[widest]

    curves = []
    texts = [one.question.procedure.text(one.question.schema) for one in planned]
    for place in range(many):
        known = {}
        for share in map(float, np.geomspace(_LEAST_SHARE, 1.0, _POINTS)):
            with suppress(DPInferError):  # shares that cannot be measured
                ratio, _ = relative(place, budget * share if share < 1 else budget)
                if np.isfinite(ratio):
                    known[share] = max(ratio, 1 + 1e-9)
        if len(known) < 2:
            right = "questions with bounded intervals at shares of the budget"
            raise OptionError("procedure", texts[place], right)
        curves.append((np.array(list(known)), np.minimum.accumulate(np.array(list(known.values())))))
    functions = [_interpolated(*curve) for curve in curves]
    shares = np.ones(1) if many == 1 else _least_largest(functions) if listed is None else _least_sum(functions, listed)
    shares = np.array([four_digits_down(float(share)) for share in shares])
    prices = tuple(budget * float(share) if share < 1 else budget for share in shares)
    ratios, widest = zip(*(relative(place, price) for place, price in enumerate(prices)), strict=True)
    columns = {"share": shares, "privacy": list(map(str, prices)), "relative": ratios, "widest": widest}
    frame = pd.DataFrame(columns, index=pd.Index(texts, name="question"))
    return SharedPlan(frame, prices, n, budget, planned[0].about, tuple(curves))


def _interpolated(shares: Array, ratios: Array) -> Callable[[Any], Any]:
    """Interpolate squared relative width minus 1, which is proportional to the noise, on the log scale."""
    at, excess = np.log(shares), np.log(ratios**2 - 1)

    def function(share: Any) -> Any:
        inside = np.interp(np.log(share), at, excess)
        below = (excess[1] - excess[0]) / (at[1] - at[0]) * np.minimum(np.log(share) - at[0], 0.0)
        return np.sqrt(1 + np.exp(np.minimum(inside + below, 600.0)))

    return function


def _least_largest(functions: Sequence[Callable[[Any], Any]]) -> Array:
    """Shares at which all relative widths are equal."""
    least = _LEAST_SHARE * 1e-3

    def needed(one: Callable[[Any], Any], ratio: float) -> float:
        if one(least) <= ratio:
            return least
        if one(1.0) >= ratio:
            return 1.0
        return float(np.exp(optimize.brentq(lambda x: one(np.exp(x)) - ratio, np.log(least), 0.0)))

    def shares_for(log_ratio: float) -> Array:
        return np.array([needed(one, float(np.exp(log_ratio))) for one in functions])

    low, high = max(float(one(1.0)) for one in functions), max(float(one(1 / len(functions))) for one in functions)
    root = optimize.brentq(lambda x: shares_for(x).sum() - 1, np.log(low), np.log(max(high, low) * 1.0001))
    shares = shares_for(root)
    return np.asarray(shares / max(shares.sum(), 1.0))


def _least_sum(functions: Sequence[Callable[[Any], Any]], weights: Array) -> Array:
    """Shares that minimize the weighted sum of relative widths."""

    def total(free: Array) -> float:
        shares = special.softmax(free)
        return float(sum(weight * one(share) for weight, one, share in zip(weights, functions, shares, strict=True)))

    options = {"xatol": 1e-4, "fatol": 1e-8, "maxiter": 4000}
    found = optimize.minimize(total, np.zeros(len(functions)), method="Nelder-Mead", options=options)
    return np.asarray(special.softmax(found.x))
