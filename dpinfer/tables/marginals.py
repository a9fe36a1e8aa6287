"""Many marginals of a table too large for memory, by contrasts of their cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import is_list, is_number, is_text, one_of, texts_of
from dpinfer.errors import NotProvedError, OptionError, SchemaError, UnknownColumnError, named, type_of
from dpinfer.kernel.rows.marginals import MOST_COLUMNS, MOST_SUBSETS
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import Neighbors, PureDP
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, axes_of, axis_name, edges_of, inferred, measured, told_where
from dpinfer.procedures.procedure import Procedure
from dpinfer.release import Release, StageRelease
from dpinfer.statistics.inference import BatchEstimates, Oracle, Released
from dpinfer.statistics.moment_inference import MomentInference
from dpinfer.tables.marginal_inference import (
    OBJECTIVES,
    MarginalInference,
    MarginalPlan,
    centered_margins,
)
from dpinfer.tables.marginal_results import MarginalResults, MarginalTables

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.procedures.options import Contrasts
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

    Weights = Mapping[Any, float] | Sequence[float] | None

_MARGINALS = 'a list of marginals such as [["race", "sex"], ["sex", "educ"]], or a workload(...)'
_RANGES = ("prefix", "prefixes", "range", "ranges", "cdf", "intervals")


@dataclass(frozen=True)
class Workload:
    """A public list of marginals and their weights, created by `workload`.

    Attributes
    ----------
    marginals : tuple of tuple of str
        Columns of each.
    weights : tuple of float
        Positive; one for each marginal.
    """

    marginals: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.marginals or len(self.marginals) > MOST_SUBSETS:
            shown = f"{len(self.marginals):,} marginals" if self.marginals else "no marginal"
            raise OptionError("workload", shown, f"1 to {MOST_SUBSETS:,} marginals: {_MARGINALS}")
        for marginal in self.marginals:
            if not marginal or not all(map(is_text, marginal)):
                raise OptionError("workload", list(marginal), "marginals of one column or more each, as texts")
            if len({*marginal}) < len(marginal):
                raise OptionError("workload", ", ".join(marginal), "each column once in a marginal")
        sets = [frozenset(marginal) for marginal in self.marginals]
        twice = [marginal for place, marginal in enumerate(self.marginals) if sets[place] in sets[:place]]
        if twice:
            raise OptionError("workload", ", ".join(twice[0]), "each marginal once, whatever the order of its columns")
        if len(self.columns) > MOST_COLUMNS:
            raise OptionError("workload", f"{len(self.columns)} columns", f"at most {MOST_COLUMNS} columns")
        right = all(is_number(one) and 0 < one < np.inf and 1e-9 <= one <= 1e9 for one in self.weights)
        if len(self.weights) != len(self.marginals) or not right:
            raise OptionError("weights", list(self.weights)[:10], "a positive number for each marginal, 1e-9 to 1e9")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of their first mention."""
        return tuple(dict.fromkeys(column for marginal in self.marginals for column in marginal))

    def __len__(self) -> int:
        return len(self.marginals)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.marginals)

    def __repr__(self) -> str:
        return f"<Workload: {len(self)} marginals of {len(self.columns)} columns>"


@suggests
def workload(columns: Sequence[str], *, ways: int | Sequence[int] = 2, weights: Weights = None) -> Workload:
    """Choose the tables that `marginals` measures, such as all pairs of columns, and their weights.

    Parameters
    ----------
    columns : sequence of str
        Category, Boolean or short Integer columns, conditions such as ``"age >= 18"``, or numeric columns for which
        `marginals` has ``bins``.
    ways : int or sequence of int
        Number of columns in each marginal: 2 for all pairs, (1, 2) for all single columns and pairs.
    weights : mapping of columns to number, or sequence, optional
        Weights of the errors of each marginal; by default 1. The keys of a mapping are columns, or tuples of columns in
        any order; marginals that it does not name have weight 1.

    Returns
    -------
    Workload

    Raises
    ------
    OptionError
        If a column is named twice, ``ways`` do not match the columns, or a weight is not positive.
    NotProvedError
        If ranges are requested; use `cdf` or `quantile` instead.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> list(dpi.workload(["race", "sex", "educ"], weights={("educ", "sex"): 4}))
    [('race', 'sex'), ('race', 'educ'), ('sex', 'educ')]
    """
    listed = texts_of(columns)
    if isinstance(columns, str) or not listed or not all(map(is_text, listed)):
        raise OptionError("columns", columns, 'a list of columns such as ["race", "sex", "educ"]')
    if len({*listed}) < len(listed):
        raise OptionError("columns", list(listed)[:10], "different columns")
    if isinstance(ways, str) and ways.lower() in _RANGES:
        raise NotProvedError(
            f"ways={ways!r}: marginals of ranges need another strategy than contrasts of levels; cdf(column) and "
            "quantile(column, q=) release a numeric column's ranges from one tree of counts, by=groups"
        )
    each = (ways,) if isinstance(ways, int) else tuple(ways) if isinstance(ways, Sequence) else ()
    right = each and all(type(one) is int and 1 <= one <= len(listed) for one in each)
    if not right or len({*each}) < len(each):
        raise OptionError("ways", ways, f"a number of columns, or several, from 1 to {len(listed)}")
    if sum(comb(len(listed), one) for one in each) > MOST_SUBSETS:
        raise OptionError("ways", ways, f"at most {MOST_SUBSETS:,} marginals")
    return read_workload([marginal for one in each for marginal in combinations(listed, one)], weights)


def read_workload(given: object, weights: Weights = None) -> Workload:
    """Return a workload, from a workload or a list of marginals."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise OptionError("workload", given if isinstance(given, str) else type_of(given), _MARGINALS)
    sets = tuple(texts_of(one) for one in given)
    if not all(sets):
        raise OptionError("workload", "a marginal of no columns, or of none that are texts", _MARGINALS)
    if isinstance(weights, Mapping):
        keyed = {frozenset((name,) if isinstance(name, str) else name): weight for name, weight in weights.items()}
        unknown = [name for name in keyed if name not in {frozenset(one) for one in sets}]
        if unknown:
            shown = " x ".join(map(named, sorted(map(str, unknown[0]))))
            raise OptionError("weights", shown, "marginals of the workload")
        weights = [keyed.get(frozenset(one), 1.0) for one in sets]
    elif weights is None:
        weights = [1.0] * len(sets)
    listed = weights if is_list(weights) else ()
    return Workload(sets, tuple(float(one) if is_number(one) else one for one in listed))


@suggests
def marginals(
    workload: Workload | Sequence[Sequence[str]],
    data: Any = None,
    *,
    bins: Mapping[str, Sequence[float]] | None = None,
    where: str | None = None,
    objective: str = "sum",
    target: str = "data",
    inference: str = "auto",
) -> Marginals:
    """Measure many marginal tables at once, such as all pairs of columns, with the least total noise.

    Parameters
    ----------
    workload : Workload, or sequence of sequences of str
        The marginals: `workload` of columns, or a list such as ``[["race", "sex"], ["sex", "educ"]]``. Columns are
        Category, Boolean or short Integer, conditions such as ``"age >= 18"``, or numeric with ``bins``. A row with a
        missing value in any of these columns is in no marginal.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a stored release that contains these marginals. Nothing is read or spent here.
    bins : mapping of str to sequence of float, optional
        Increasing edges within the declared bounds for numeric columns, whose bins become levels.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    objective : {"sum", "max"}
        What the noise allocation minimises: the sum over all cells of the variance times the marginal's weight, or the
        largest of these products.
    target : {"data", "population"}
        "data": counts describe the rows, and errors include privacy noise only; "population": errors include sampling
        too.
    inference : {"auto", "score", "wald"}
        "auto" is "score", as in `table`.

    Returns
    -------
    Marginals
        Its ``fit(privacy)`` returns `MarginalResults`: ``marginal(columns)``, ``proportions(column, by)``, ``ratio``,
        ``table(columns)``, ``summary_frame()``. The release also answers `table`, `count`, `proportion`, `chisquare`,
        `chi2_contingency` and `loglinear` for columns within one marginal.

    Raises
    ------
    OptionError
        If there is no marginal, a column occurs twice in one, bins are not edges, or a marginal has too many cells.
    UnknownColumnError, SchemaError, FormulaError
        If a column is not declared, or has no levels and no bins.

    Notes
    -----
    Under ZCDP, GDP or ApproxDP, Helmert contrasts of every subset of each marginal's columns are released with
    independent noise in proportion to the norms of their rows. This is the residual planner, whose reconstruction is
    the best unbiased one for the objective under add_remove (Xiao, He, Zhang & Kifer 2023). Under PureDP, where
    contrasts would cost more, the counts of the largest marginals are released, and shared margins are averaged with
    inverse variance weights.

    References
    ----------
    Xiao, He, Zhang & Kifer (2023), An optimal and scalable matrix mechanism for noisy marginals under convex loss
    functions, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(a=dpi.Boolean(), b=dpi.Category(["x", "y", "z"]), c=dpi.Integer(1, 4))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(4000, rng), schema, rng=rng)
    >>> results = dpi.marginals(dpi.workload(["a", "b", "c"]), data).fit(dpi.ZCDP(0.1))
    >>> bool(np.allclose(results.marginal("b").params, results.marginal(["a", "b"]).margin("b").params))
    True
    """
    chosen = read_workload(workload)
    edges = {} if bins is None else bins
    if not isinstance(edges, Mapping) or not {*edges} <= {*chosen.columns}:
        raise OptionError("bins", bins, "a mapping from columns of the workload to increasing edges")
    axes = tuple(
        {"column": column, "edges": edges_of(column, edges[column])} if column in edges else axes_of(column)[0]
        for column in chosen.columns
    )
    return Marginals.asking(locals(), axes=axes, marginals=chosen.marginals, weights=chosen.weights)


@dataclass(frozen=True, eq=False)
class Marginals(Procedure):
    """Chosen marginals of the counts of a table. See `marginals`."""

    procedures = ("marginals",)

    axes: tuple[Mapping[str, Any], ...] = ()
    marginals: tuple[tuple[str, ...], ...] = ()
    weights: tuple[float, ...] = ()
    where: str | None = None
    objective: str = measured("sum", one_of(OBJECTIVES))
    inference: str = inferred("auto", one_of(MarginalInference.methods))
    target: str = inferred("data", TARGET)

    def check_options(self) -> None:
        """Refuse an invalid workload, or one of other columns."""
        columns = Workload(self.marginals, self.weights).columns
        names = [axis_name(axis) for axis in self.axes]
        if len({*names}) < len(names) or {*names} != {*columns}:
            raise OptionError("axes", names[:10], "the columns of the workload, each once")

    def plan(self, schema: Schema) -> MarginalPlan:
        """Compile the workload against a schema."""
        return MarginalPlan(schema, self.axes, self.marginals, self.weights, self.objective, self.where)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        listed = "; ".join(" x ".join(marginal) for marginal in self.marginals[:5])
        more = f"; ... ({len(self.marginals):,} in all)" if len(self.marginals) > 5 else ""
        return f"marginals {listed}{more}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns without levels, and too many cells."""
        for axis in self.axes:
            name = axis.get("column")
            if name is not None and name not in schema:
                raise UnknownColumnError(name, tuple(schema))
            if name is not None and "edges" not in axis and not schema[name].level_texts:
                raise SchemaError(
                    f"{name!r} has no levels: marginals need a Category, a Boolean, an Integer of at most a hundred "
                    f"values, or bins={{{name!r}: [edges]}}; for ranges of a numeric column use cdf or quantile"
                )
        plan = self.plan(schema)
        for pure in (False, True):
            plan.rows(pure=pure).check()

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for contrasts of all subsets of the marginals' columns, or for counts under Laplace noise."""
        self.check(context.schema, context.neighbors)
        pure, plan = isinstance(context.privacy, PureDP), self.plan(context.schema)
        return Stage(Sum(plan.rows(pure=pure), weights=plan.noise_weights(pure=pure)))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise of a cell of each marginal, before any budget is spent."""
        plan = self.plan(measured.context.schema)
        found = centered_margins(Released.of_study(measured, np.zeros((1, len(measured.names)))))
        errors = [found.cell_variance(subset) ** 0.5 for subset in plan.workload]
        each = [f"{' x '.join(one)} {error:.4g}" for one, error in zip(self.marginals[:10], errors, strict=False)]
        more = f", ... (at most {max(errors):.4g})" if len(errors) > 10 else ""
        return (
            f"{measured.describe()}\nstandard error of each cell from privacy noise, whatever the rows are: "
            f"{', '.join(each)}{more}"
        )

    # Inference

    def reads(self, other: Procedure) -> bool:
        """Whether a release contains these marginals: of the same rows, each within a measured marginal."""
        if not isinstance(other, Marginals) or other.where != self.where:
            return False
        tables = other.marginal_tables()
        return tables is not None and tables.holds(self.marginals, self.axes)

    def marginal_tables(self) -> MarginalTables | None:
        """Return the marginals in its release."""
        if not isinstance(self.source, Release):
            return None
        return MarginalTables(self.source, self.plan(self.source.schema), self.marginals)

    def infer(self, release: Release | None = None) -> MarginalResults:
        """Infer from a stored release of these marginals, or of others that contain them, at no privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        tables = theirs.marginal_tables()
        assert isinstance(tables, MarginalTables)  # `reads` refuses other releases
        tables.check()
        return MarginalResults(found, replace(tables, marginals=self.marginals), self.inference, self.target)

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer the counts of all marginals from many releases at once; see `Procedure.estimate`."""
        parts = [one.batch(alpha, contrasts) for one in self._counts(released)]
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts], axis=1)
            for name in ("params", "bse", "pvalues", "intervals")
        }
        names = tuple(name for part in parts for name in part.names)
        return BatchEstimates(names, **joined, flagged=np.any([part.flagged for part in parts], axis=0))

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,  # noqa: ARG002
    ) -> Oracle:
        """Return the width of an interval that knew the population; see `OLS.oracle`."""
        parts, start = [], 0
        for one in self._counts(released):
            parts.append(one.oracle(sampling[start : start + len(one.names)], alpha))
            start += len(one.names)
        halves, ordinary = (np.concatenate([getattr(one, name) for one in parts]) for name in ("halfwidth", "ordinary"))
        return Oracle(halves, ordinary, min(one.kappa for one in parts))

    def _counts(self, released: Released) -> list[MomentInference]:
        """Return the inference of the counts of each marginal."""
        plan, found, counts = self.plan(released.schema), centered_margins(released), []
        nobs = released.nobs if released.rows.keeps_every_row else None
        for marginal in self.marginals:
            subset = plan.places(marginal)
            told, estimates = plan.described(subset), plan.counts(found, subset, nobs, self.target)
            counts.append(MomentInference(told.names, estimates, told.shift, told.factor, method=self.inference))
        return counts
