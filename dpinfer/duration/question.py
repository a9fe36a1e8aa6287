"""Survival analysis: times to an event with right censoring, by group, from one table of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import is_list, is_number, is_text, is_whole, named, one_of, require, whole
from dpinfer.duration.inference import CENSORING, CLEAR, METHODS, LifeTables
from dpinfer.duration.results import SurvivalResults
from dpinfer.errors import FormulaError, OptionError, SchemaError, worded
from dpinfer.kernel.rows.cells import named_cells
from dpinfer.procedures.cell_sums import SumPlan, SumsQuestion, check_summed
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axes_of, axis_name, compiled_where, inferred, measured, told_where
from dpinfer.procedures.procedure import context_of, first_error
from dpinfer.schema.columns import Integer
from dpinfer.schema.intervals import Interval, never_holds
from dpinfer.statistics.arrays import floats
from dpinfer.statistics.inference import BatchEstimates, Released
from dpinfer.statistics.noise import count_noise

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]


_TIMES = "increasing numbers (the ends of the intervals), or a number of equal intervals from 1 to 1,000"
_EVENT = 'a Boolean, an Integer of 0 and 1, or a condition such as "status == 2"'


@dataclass(frozen=True, eq=False)
class Survival(SumsQuestion):
    """Survival by group. See `survival`.

    Attributes
    ----------
    time, event : str
    times : tuple of float, optional
        Ends of the intervals; None until the schema is known, if only their number was given.
    intervals : int, optional
        Number of intervals; a measured question has times instead.
    axes : tuple of mapping
        The groups, as `Axis.to_dict` writes them.
    where : str, optional
    censoring : {"end", "middle"}
    inference : {"auto", "score", "log-log"}
    """

    procedures: ClassVar[tuple[str, ...]] = ("survival",)

    time: str = measured("", named("the name of a Real or Integer column"))
    event: str = "event"
    times: tuple[float, ...] | None = None
    intervals: int | None = None
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    censoring: str = inferred("end", one_of(tuple(CENSORING)))
    inference: str = inferred("auto", one_of(METHODS))

    def check_options(self) -> None:
        """Refuse an event that is not a string, and times that do not increase."""
        require(is_text(self.event), "event", self.event, _EVENT)
        if self.times is None:
            whole(1, 1000, _TIMES).check("times", self.intervals)
        else:
            given = np.asarray(self.times, dtype=np.float64)
            finite, rising = np.isfinite(given).all(), (np.diff(given) > 0).all()
            wrong = ", not all of them finite" if not finite else "" if rising else " that do not increase"
            right = 1 <= given.size <= 1000 and finite and rising
            require(right, "times", worded(f"({given.size:,} numbers{wrong})"), _TIMES)

    def ends_of(self, schema: Schema) -> tuple[float, ...]:
        """Return the ends of the intervals.

        Raises
        ------
        SchemaError, OptionError
            If the column is not numeric, or times are not within its bounds.
        """
        column = schema[self.time]
        if not hasattr(column, "lower"):
            raise SchemaError(f"{self.time!r} is not numeric: times need a Real or an Integer")
        (lower, upper), whole_numbers = column.limits, isinstance(column, Integer)
        if self.times is None:
            ends = np.linspace(lower, upper, int(self.intervals or 1) + 1)[1:]
            ends = np.unique(np.rint(ends) if whole_numbers else ends)
            return tuple(ends[ends > lower].tolist())
        within = f"increasing times above {lower:g} and at most {upper:g}, the bounds of {self.time!r}"
        given = f"({len(self.times):,} numbers, not all of them"
        inside = lower < self.times[0] and self.times[-1] <= upper
        require(inside, "times", worded(f"{given} within the bounds)"), within)
        if whole_numbers and not all(float(one).is_integer() for one in self.times):
            raise OptionError("times", worded(f"{given} whole)"), f"whole numbers, as {self.time!r} has")
        return self.times

    def plan(self, schema: Schema) -> SumPlan:
        """Return the table: groups, intervals that include their upper ends, and censored before events."""
        ends, column = self.ends_of(schema), schema[self.time]
        (lower, upper), step = column.limits, isinstance(column, Integer)
        cuts = [end + 0.5 if step else float(np.nextafter(end, np.inf)) for end in ends]
        edges = [lower, *(cut for cut in cuts if cut < upper), upper]
        (event,) = axes_of((self.event,))
        return SumPlan(
            "table", schema, axes=(*self.axes, {"column": self.time, "edges": edges}, event), where=self.where,
            target="data",
        )  # fmt: skip

    def resolve(self, context: Context) -> Self:
        """Return the same question with its times."""
        return replace(self, times=self.ends_of(context.schema), intervals=None)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        groups = ", ".join(map(axis_name, self.axes))
        return f"survival: {self.time} to {self.event}{f' by {groups}' if groups else ''}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse an event that does not have two levels, and columns that do not suit a table."""
        event: Axis = self.plan(schema).cells[-1]
        require(event.labels in ((False, True), (0, 1)), "event", self.event, _EVENT)
        bounds = {name: Interval(*column.limits) for name, column in schema.items() if hasattr(column, "limits")}
        conditions = {"where": compiled_where(self.where, schema), "event": getattr(event, "expression", None)}
        for option, asked in conditions.items():
            if asked is not None and never_holds(asked.node, bounds):
                raise FormulaError(asked.text, f"no row within the declared bounds meets this condition of {option}=")
        super().check(schema, neighbors)

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured, and the noise in numbers at risk."""
        size = len(self.ends_of(measured.context.schema))
        counts = np.zeros((1, *measured.rows.shape[-2:]))
        first, last = LifeTables.of(counts, size, first_error(measured) ** 2).risk_error[[0, -1]]
        return (
            f"{measured.describe()}\nat risk      noise of standard deviation {first:.3g} rows at the start, falling "
            f"to {last:.3g} in the last of {size} intervals; survival is not determined from the first interval on in "
            f"which the number at risk in a group is below about {CLEAR:g} times the noise"
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> SurvivalResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, plan = self._release_and_sums(release)
        released = Released.of_release(found, context_of(found), plan.rows)
        ends = self.ends_of(plan.schema)
        return SurvivalResults(
            release=found,
            tables=self._life_tables(released, len(ends)),
            noise=count_noise(found.law, found.steps, 1),
            times=np.array(ends),
            start=plan.schema[self.time].limits[0],
            groups=plan.cells[:-2],
            column=self.time,
            event=self.event,
            where=self.where,
            method="score" if self.inference == "auto" else self.inference,
            nobs_is_public=found.nobs is not None and plan.rows.keeps_every_row,
        )

    def _life_tables(self, released: Released, intervals: int) -> LifeTables:
        counts = released.values.reshape(-1, *released.rows.shape[-2:])  # noqa: PD011  (no frame)
        variance = count_noise(released.law, tuple(released.steps.tolist()), 1).variance
        most, lost = released.schema.rows_per_unit, CENSORING[self.censoring]
        return LifeTables.of(counts, intervals, variance, dependence=most, lost=lost)

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer survival at all times from many releases at once; see `Procedure.estimate`.

        There is no null hypothesis of zero: p-values are 1. Where survival is not determined, the estimate is the last
        determined one. The flag marks releases where some survival is not determined.
        """
        check_summed(released)
        require(contrasts is None, "contrasts", contrasts, "None: survival has no contrasts")
        ends = self.ends_of(released.schema)
        tables, shape = self._life_tables(released, len(ends)), (len(released.values), -1)
        sampling, noise = (np.einsum("nkk->nk", one) for one in tables.covariance())
        intervals = tables.ends(float(stats.norm.isf(alpha / 2)), method=self.inference)
        labels = [f"[{one}]" if one else "" for one in named_cells(released.rows.axes[:-2])]
        return BatchEstimates(
            names=tuple(f"S({end:g}){label}" for label in labels for end in ends),
            params=tables.survival.reshape(shape),
            bse=(tables.survival * np.sqrt(sampling + noise)).reshape(shape),
            pvalues=np.ones_like(tables.survival).reshape(shape),
            intervals=intervals.reshape(len(released.values), -1, 2),
            flagged=np.asarray(~tables.clear.reshape(shape).all(axis=1)),
        )


@suggests
def survival(
    time: str,
    event: str,
    data: Data | Release | None = None,
    *,
    times: Sequence[float] | pd.Series | pd.Index | int,
    by: Columns = (),
    where: str | None = None,
    censoring: str = "end",
    inference: str = "auto",
) -> Survival:
    """Estimate survival functions and life tables from right-censored times.

    Parameters
    ----------
    time : str
        A Real or Integer column: the follow-up time of each row.
    event : str
        Whether the follow-up ended with the event rather than censoring: a Boolean, an Integer of 0 and 1, or a
        condition such as ``"status == 2"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, at no further privacy cost.
    times : sequence of float, Series or int
        Public, increasing ends of the time intervals, above the lower bound of ``time``; or the number of equal
        intervals up to the upper bound. An interval includes its end. Rows followed beyond the last end are censored
        there.
    by : str or sequence of str
        Groups: columns of levels, or conditions.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    censoring : {"end", "middle"}
        When censored rows leave their interval: at its end, after all events in it, as in Kaplan and Meier's treatment
        of ties; or half-way, as in an actuarial life table.
    inference : {"auto", "score", "log-log"}
        Intervals for survival: "score" inverts a score test; "log-log" uses the delta method for ``log(-log S)``, as
        statsmodels and R do. "auto" is "score".

    Returns
    -------
    Survival
        Its ``fit(privacy)`` returns `SurvivalResults`: life table, Kaplan-Meier with intervals and simultaneous bands,
        cumulative hazard, quantiles, restricted means, log-rank tests, and a plot with numbers at risk.

    Raises
    ------
    OptionError
        If times are not numbers, do not increase or are outside the bounds, or the event does not have two levels.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition does not suit the schema, or no row within the declared bounds can meet it; before any
        budget is spent.

    Notes
    -----
    The release is one noisy table of counts: rows by group, interval, and event or censoring. A row is in one cell.

    Within an interval, events precede censorings, as in Kaplan and Meier's treatment of ties. If all times in the data
    are ends of intervals, the estimate is theirs. If times are finer, rows censored within an interval were not at risk
    for all of it, and survival is overestimated. ``censoring="middle"`` removes most of this bias, also in tests; a
    flag warns where it matters.

    Intervals include Greenwood's variance and that of the noise in all counts. From the first interval in which the
    noisy number at risk is below three standard deviations of its noise, survival is "not determined": the confidence
    interval extends from 0 to the last known upper endpoint, and a flag says where.

    References
    ----------
    Kaplan & Meier (1958), Nonparametric estimation from incomplete observations, JASA 53. Cutler & Ederer (1958),
    Maximum utilization of the life table method in analyzing survival, J. Chronic Diseases 8. Rothman (1978),
    Estimation of confidence limits for the cumulative probability of survival in life table analysis, J. Chronic
    Diseases 31. Brookmeyer & Crowley (1982), A confidence interval for the median survival time, Biometrics 38.
    Harrington & Fleming (1982), A class of rank test procedures for censored survival data, Biometrika 69.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(months=dpi.Real(0, 60), died=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> life, followed = rng.exponential(30, 5000), rng.uniform(0, 60, 5000)
    >>> frame = pd.DataFrame({"months": np.minimum(life, followed), "died": life <= followed})
    >>> data = dpi.PublicData(frame, schema, rng=rng)
    >>> results = dpi.survival("months", "died", data, times=12).fit(dpi.ZCDP(0.1))
    >>> median = results.median().loc["all"]
    >>> bool(median["[0.025"] <= 25 <= median["0.975]"])
    True
    """
    given = times.tolist() if isinstance(times, pd.Series | pd.Index) else times
    ends = floats(given) if is_list(given) and all(map(is_number, given)) else None
    wrong = worded("(a list with non-numeric elements)") if is_list(given) else given
    require(is_whole(times) or ends is not None, "times", wrong, _TIMES)
    count = int(times) if is_whole(times) else None
    return Survival.asking(locals(), times=ends, intervals=count, axes=axes_of(by))
