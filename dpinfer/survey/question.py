"""Complex surveys: a design, and the questions under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from dpinfer.checks import TRUTH, are_texts, is_finite, is_text, of_type, one_of, require
from dpinfer.errors import FormulaError, InferenceError, OptionError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.cell_sums import Described, SumPlan, levels_shown
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import (
    axes_of,
    axis_name,
    column_texts,
    compiled_where,
    inferred,
    told_where,
    where_notes,
)
from dpinfer.procedures.procedure import Procedure, context_of
from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import axis_from_dict, compile_expression, quoted
from dpinfer.schema.formula import FormulaDesign, two_sided
from dpinfer.statistics.inference import Released
from dpinfer.survey.inference import CLEAR, METHODS, SurveyInference, Units, least_squares, ratios

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release, StageRelease
    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.formula import DesignColumn
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Inference
    from dpinfer.survey.inference import Linearized

    Columns = str | Sequence[str]

KINDS = ("mean", "total", "ratio", "proportion", "ols")

_MOST_UNITS = 5000
_EFFECT_SHARE = 0.1
"""Share of the budget for sums that only design effects need."""

_CERTAIN = 5.0
"""Standard deviations of its noise that the variance of rows has to reach for a design effect to be divided by it.

Of those that just reach three the mean is a quarter too large.
"""

_FPC = "a sampling fraction above 0 and at most 1, or a number of units in the population; by stratum where they differ"


@dataclass(frozen=True)
class SurveyDesign:
    """The sampling design of a survey: weights, strata and primary sampling units.

    Its methods create questions: `mean`, `total`, `proportion`, `ratio` and `ols`. Each returns a procedure with
    ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Parameters
    ----------
    cluster : str
        Column of levels: the primary sampling unit of each row. The list of units is public and includes sampled units
        without rows; at most 5,000.
    weights : str, optional
        Column of bounded, nonnegative sampling weights; all are 1 by default. A weight is treated as an attribute of
        its row: the guarantee does not cover weights computed from other rows (calibrated, raked).
    strata : str or mapping, optional
        A column of levels: units are then nested within strata, as with ``nest=TRUE`` in R's ``svydesign``, and every
        pair of a stratum and a level of ``cluster`` is a unit. Or a mapping of each unit's level to its stratum, if
        levels identify units. One stratum by default.
    fpc : float or mapping, optional
        Sampling fraction of the units, at most 1, or number of units in the population; by stratum if strata differ.
        None means sampling with replacement.
    lonely : {"adjust", "certainty"}, optional
        Variance contribution of a stratum with one unit: from its distance to the mean of all units ("adjust"), or
        none, as for a unit sampled with certainty. By default such a stratum is refused.

    Raises
    ------
    OptionError
        If an option has an invalid value.

    Notes
    -----
    Variances use Taylor linearisation, between units within strata, as in R's ``survey`` with ultimate clusters.

    References
    ----------
    Binder (1983), On the variances of asymptotically normal estimators from complex surveys, International Statistical
    Review 51. Lumley (2004), Analysis of complex survey samples, Journal of Statistical Software 9.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(income=dpi.Real(0, 100), w=dpi.Real(0.5, 2), unit=dpi.Integer(1, 30))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> design = dpi.SurveyDesign("unit", weights="w")
    >>> results = design.mean("income", data).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params.iloc[0] - 50) < 3), results.df_resid
    (True, 29.0)
    """

    cluster: str
    weights: str | None = None
    strata: str | Mapping[str, str] | None = None
    fpc: float | Mapping[str, float] | None = None
    lonely: Literal["adjust", "certainty"] | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid column, stratum, fraction or rule."""
        right = "a column of levels; for rows sampled individually use dpi.mean(..., weights=)"
        require(is_text(self.cluster), "cluster", self.cluster, right)
        require(self.weights is None or is_text(self.weights), "weights", self.weights, "a column of weights, or None")
        named = self.strata is None or (is_text(self.strata) and self.strata != self.cluster)
        mapped = isinstance(self.strata, Mapping) and are_texts((*self.strata, *self.strata.values()))
        right = "another column of levels, the stratum of each unit by its level, or None"
        require(named or mapped, "strata", self.strata, right)
        given = [*self.fpc.values()] if isinstance(self.fpc, Mapping) else [1.0 if self.fpc is None else self.fpc]
        require(given and all(is_finite(one) and one > 0 for one in given), "fpc", self.fpc, _FPC)
        require(self.lonely in (None, "adjust", "certainty"), "lonely", self.lonely, '"adjust", "certainty" or None')

    def axes(self, schema: Schema) -> tuple[Axis, ...]:
        """Return the axes of units, with strata first if they are a column."""
        names = (self.strata, self.cluster) if isinstance(self.strata, str) else (self.cluster,)
        return tuple(LevelsAxis(schema, name) for name in names)

    def units(self, schema: Schema) -> Units:
        """Return the public structure of the sample.

        Raises
        ------
        OptionError, SchemaError
            If strata, fractions or lonely units do not match the levels.
        """
        axes = self.axes(schema)
        levels = [str(one) for one in axes[-1].labels]
        names = [str(one) for one in axes[0].labels] if len(axes) > 1 else ["all"]
        stratum = np.repeat(np.arange(len(names)), len(levels))
        if isinstance(self.strata, Mapping):
            told = f"a stratum for each level of {self.cluster!r} and for nothing else"
            require(set(self.strata) == set(levels), "strata", sorted(self.strata), told)
            names = list(dict.fromkeys(self.strata[one] for one in levels))
            stratum = np.array([names.index(self.strata[one]) for one in levels])
        size = np.bincount(stratum)
        require(len(stratum) <= _MOST_UNITS, "cluster", f"{len(stratum):,} units", f"at most {_MOST_UNITS:,} units")
        alone = [name for name, count in zip(names, size, strict=True) if count == 1]
        right = f'"adjust" or "certainty": there is only one unit in {", ".join(alone[:5])}'
        require(self.lonely or not alone, "lonely", None, right)
        require(len(stratum) > len(names), "cluster", f"{len(stratum)} units in {len(names)} strata",
                "more units than strata")  # fmt: skip
        by = self.fpc if isinstance(self.fpc, Mapping) else dict.fromkeys(names, self.fpc or np.inf)
        require(set(by) == set(names), "fpc", sorted(by), f"{_FPC}: {', '.join(names[:5])}")
        given = np.array([float(by[name]) for name in names])
        fraction = np.where(given <= 1, given, size / given)
        require((fraction <= 1).all(), "fpc", self.fpc, "at least as many units in the population as in the sample")
        unsampled = np.where((size == 1) & (self.lonely == "certainty"), 0.0, 1 - fraction)
        return Units(stratum, unsampled[stratum])

    @property
    def text(self) -> str:
        """Description of the design in words."""
        strata = self.strata if isinstance(self.strata, str) else "given" if self.strata else ""
        parts = {"units": self.cluster, "strata": strata, "weights": self.weights}
        return ", ".join(f"{what} {name}" for what, name in parts.items() if name)

    # What is asked

    @suggests
    def mean(
        self, columns: Columns, data: Data | Release | None = None, *, by: Columns = (), where: str | None = None,
        deff: bool = False, inference: str = "auto",
    ) -> Survey:  # fmt: skip
        """Estimate means of columns, by domain.

        Parameters
        ----------
        columns : str or sequence of str
            Numeric columns, or expressions of them.
        data : PrivateData, PublicData or Release, optional
            Rows to measure, or a stored release of this question, of the same totals or of ratios. No budget is spent
            here.
        by : str or sequence of str
            Domains: columns of levels, or conditions. Every domain includes all units of the design.
        where : str, optional
            A condition on declared columns; other rows are treated as absent, but their units are kept.
        deff : bool
            Whether to measure design effects too, for a tenth of the budget.
        inference : {"auto", "score", "wald"}
            "auto" is "score": Fieller's interval, which is unbounded if noise, or few units of very different weight,
            hide the sum of weights. "wald" is the usual interval.

        Returns
        -------
        Survey

        Raises
        ------
        FormulaError, UnknownColumnError, SchemaError
            If a column, domain or condition does not suit the schema, before any budget is spent.
        OptionError
            If an option has an invalid value, or the design does not suit the schema.
        """
        return self._ask("mean", columns, data, by=axes_of(by), where=where, deff=deff, inference=inference)

    @suggests
    def total(
        self, columns: Columns, data: Data | Release | None = None, *, by: Columns = (), where: str | None = None,
        deff: bool = False, inference: str = "auto",
    ) -> Survey:  # fmt: skip
        """Estimate totals of columns, by domain: sums of weight times value.

        Arguments and errors are those of `mean`.

        Returns
        -------
        Survey
        """
        return self._ask("total", columns, data, by=axes_of(by), where=where, deff=deff, inference=inference)

    @suggests
    def proportion(
        self, column: str, data: Data | Release | None = None, *, by: Columns = (), where: str | None = None,
        deff: bool = False, inference: str = "auto",
    ) -> Survey:  # fmt: skip
        """Estimate shares of the levels of a column or condition, by domain.

        Other arguments and errors raised are those of `mean`.

        Parameters
        ----------
        column : str
            A column of levels, or a condition such as ``"age >= 18"``.
        data, by, where, deff, inference
            As in `mean`.

        Returns
        -------
        Survey
        """
        axes = (*axes_of(by), *axes_of(column_texts("column", (column,))))
        return self._ask("proportion", (), data, by=axes, where=where, deff=deff, inference=inference)

    @suggests
    def ratio(
        self, numerator: str, denominator: str, data: Data | Release | None = None, *, by: Columns = (),
        where: str | None = None, inference: str = "auto",
    ) -> Survey:  # fmt: skip
        """Estimate the ratio of the totals of two columns, by domain.

        Other arguments and errors raised are those of `mean`.

        Parameters
        ----------
        numerator, denominator : str
            Numeric columns, or expressions of them.
        data, by, where, inference
            As in `mean`.

        Returns
        -------
        Survey
        """
        columns = column_texts("ratio", (numerator, denominator))
        return self._ask("ratio", columns, data, by=axes_of(by), where=where, inference=inference)

    @suggests
    def ols(
        self, formula: str, data: Data | Release | None = None, *, where: str | None = None, inference: str = "auto"
    ) -> Survey:
        """Fit a weighted linear regression with design-based standard errors.

        Parameters
        ----------
        formula : str
            Such as ``"income ~ age + C(region)"``, with an intercept.
        data, where, inference
            As in `mean`.

        Returns
        -------
        Survey
            Its results are `PrivateResults`. Degrees of freedom are those of the design minus the number of regressors.

        Raises
        ------
        FormulaError, UnknownColumnError, SchemaError, OptionError
            As in `mean`; also if the formula has no intercept, or as many regressors as there are degrees of freedom.
        """
        require(is_text(formula), "formula", formula, 'a formula such as "income ~ age"')
        return self._ask("ols", (), data, formula=formula, where=where, inference=inference)

    def _ask(self, kind: str, columns: Columns, data: Any, *, by: Any = (), **options: Any) -> Survey:
        texts = columns if columns == () else column_texts("columns", columns)
        return Survey(data, kind, texts, by, design=asdict(self), **options)


@dataclass(frozen=True, eq=False)
class Survey(Procedure):
    """A question under a survey design. See `SurveyDesign`.

    Attributes
    ----------
    kind : {"mean", "total", "ratio", "proportion", "ols"}
        The first three can use each other's releases of the same columns.
    columns : tuple of str
    axes : tuple of mapping
        Domains; for shares, the levels are last.
    formula : str
    where : str, optional
    design : mapping
        The parameters of `SurveyDesign`.
    deff : bool
    inference : {"auto", "score", "wald"}
    """

    procedures: ClassVar[tuple[str, ...]] = ("survey",)

    kind: str = inferred("mean", one_of(KINDS))
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    formula: str = ""
    where: str | None = None
    design: Mapping[str, Any] | None = None
    deff: bool = False
    inference: str = inferred("auto", one_of(METHODS))

    def check_options(self) -> None:
        """Refuse an invalid design, and options that a kind does not have."""
        TRUTH.check("deff", self.deff)
        of_type(Mapping, "design", self.design, "the parameters of a SurveyDesign")
        _ = self.survey
        asked = (bool(self.columns), bool(self.formula), bool(self.axes))
        right = {"proportion": asked[::2] == (False, True), "ols": asked == (False, True, False),
                 "ratio": len(self.columns) == 2}.get(self.kind, asked[0])  # fmt: skip
        require(right, "kind", self.kind, "that of the sums: columns, a column of levels, or a formula")
        require(not self.deff or self.kind not in ("ratio", "ols"), "deff", self.deff, f"False, for {self.kind}")

    @property
    def survey(self) -> SurveyDesign:
        """The design."""
        try:
            return SurveyDesign(**(self.design or {}))
        except TypeError:
            raise OptionError("design", sorted(self.design or {}), "the parameters of a SurveyDesign") from None

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        names = [axis_name(axis) for axis in self.axes]
        what = self.formula or ", ".join(self.columns or names[-1:])
        groups = names[: len(names) - (self.kind == "proportion")]
        by = f" by {', '.join(groups)}" if groups else ""
        return f"survey {self.kind} of {what}{by}; {self.survey.text}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a design, columns or domains that do not suit the schema."""
        sums = SurveySums(self, schema)
        enough = f"fewer regressors: the design has {sums.units.df} degrees of freedom"
        require(sums.units.df > sums.used, "formula", self.formula, enough)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for weighted sums in every unit and domain."""
        self.check(context.schema, context.neighbors)
        sums = SurveySums(self, context.schema)
        return Stage(Sum(sums.rows, weights=sums.noise_weights(pure=isinstance(context.privacy, PureDP))))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the noise in the sum of all weights."""
        sums = SurveySums(self, measured.context.schema)
        count, strata, raw = len(sums.units.stratum), len(sums.units.size), sums.raw()
        noise = (measured.law.variances * np.asarray(measured.steps) ** 2)[: len(raw)]
        error = np.sqrt(count * raw**2 @ noise)
        return (
            f"{measured.describe()}\nunits        {count:,} in {strata:,} strata: {sums.units.df} degrees of freedom\n"
            f"weights      noise of standard deviation {error:.4g} in the sum of weights of a domain; a mean is not "
            f"determined where that sum is below about {CLEAR:g} times this"
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, _ = self._asked_of(release)
        sums = SurveySums(self, found.schema)
        inference = self._inferred(Released.of_release(found, context_of(found), sums.rows), sums)
        notes = (
            f"Standard errors are by linearization, with {sums.units.stratum.size:,} units in "
            f"{sums.units.size.size:,} strata ({self.survey.text}), and include sampling error and privacy noise.",
            *where_notes(self.where),
            *(["Values are clamped to their declared bounds; estimates are of clamped values."] if sums.terms else []),
        )
        if self.formula:
            return PrivateResults(inference, found, model_name="Private survey OLS", response=sums.design[-1].name,
                                  notes=notes, design=FormulaDesign(found.schema, sums.design[:-1]))  # fmt: skip
        between = " / " if self.kind == "ratio" else ", "
        return SurveyResults(
            inference, found, model_name=f"Private survey {self.kind}", notes=notes, quantity=self.kind,
            index=sums.described.index, response=between.join(self.columns) or axis_name(self.axes[-1]),
            effects=sums.effects(inference) if self.deff else None,
        )  # fmt: skip

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        return self._inferred(released, SurveySums(self, released.schema)).batch(alpha, contrasts)

    def _inferred(self, released: Released, sums: SurveySums) -> SurveyInference:
        count = sums.units.stratum.size
        values = np.reshape(released.values, (-1, count, len(released.names) // count))
        noise = released.noise_variances[: values.shape[-1]]
        told = "a person with rows in several units makes them dependent; standard errors treat units as independent"
        found = sums.linearized(values.sum(axis=1), np.sqrt(count * noise))
        return SurveyInference(sums.names, found, sums.units, values, noise, sums.used,
                               method=self.inference, notes=(told,) * (released.schema.rows_per_unit > 1))  # fmt: skip


class SurveyResults(DescriptionResults):
    """Survey means, totals, shares or ratios by domain, with all members of `DescriptionResults`.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    effects : ndarray (p,), optional
        Design effects, if they were measured.
    **labels
        As in `DescriptionResults`.
    """

    def __init__(
        self, inference: Inference, release: AnyRelease, *, effects: Array | None = None, **labels: Any
    ) -> None:
        super().__init__(inference, release, **labels)
        self._deff = effects

    @property
    def deff(self) -> pd.Series:
        """Design effects: sampling variance over that of a simple random sample of equal size.

        NaN means "not determined".

        Raises
        ------
        InferenceError
            If they were not measured.
        """
        if self._deff is None:
            raise InferenceError("design effects were not measured: set deff=True, for a tenth of the budget")
        return pd.Series(self._deff, index=self.index, name="deff")

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table of `DescriptionResults`, with "deff" if design effects were measured."""
        frame = super().summary_frame(alpha)
        return frame if self._deff is None else frame.assign(deff=self._deff)


class SurveySums:
    """The sums in every unit, compiled against a schema, and the estimates from them.

    Features are weights times powers of values centred at the middle of their bounds: the first power for means,
    squares too for design effects, all products of two for regressions. They are summed in every domain of every unit.
    With design effects the number of rows comes first.
    """

    def __init__(self, asked: Survey, schema: Schema) -> None:
        survey, self.kind, self.schema = asked.survey, asked.kind, schema
        self.units = survey.units(schema)
        self.domains = tuple(axis_from_dict(axis, schema) for axis in asked.axes)
        condition = compiled_where(asked.where, schema)
        asking: list[Any] = [*self.domains, *([condition] if condition else [])]
        read = {name for one in asking for name in one.columns}
        used = sorted({axis.name for axis in survey.axes(schema)} & read)
        right = "domains that may be in every unit: some strata have only the degrees of freedom of their units"
        require(not used, "by" if self.domains else "where", ", ".join(used), right)
        self.design, texts = self._regressors(asked.formula) if asked.formula else ((), list(asked.columns))
        self.terms = [compile_expression(text, schema) for text in texts]
        for one in self.terms:
            if one.constant is not None:
                raise FormulaError(one.text, "is the same for every row", "use a variable that differs between rows")
        self.middle = np.array([0.5 * one.lower + 0.5 * one.upper for one in self.terms])
        count = len(self.terms)
        self.powers: list[tuple[int, ...]] = [(), *((place,) for place in range(count))]
        if asked.formula:
            self.powers += list(combinations_with_replacement(range(count), 2))[:-1]  # not the response's square
        elif asked.deff:
            self.powers += [(place, place) for place in range(count)]
        weight = [] if survey.weights is None else [f"({_weight(survey.weights, schema).text})"]
        self.lead = int(bool(weight) and asked.deff)
        self.extra = [True] * self.lead + [asked.deff and len(power) > 1 for power in self.powers]
        moved = [f"(({one.text}) - ({mid!r}))" for one, mid in zip(self.terms, self.middle.tolist(), strict=True)]
        parts = [[*weight, *(moved[place] for place in power)] for power in self.powers]
        basis = basis_of(tuple(" * ".join(part) for part in parts if part), schema, centred=False)
        counted = self.lead == 1 or not weight
        features = Features(basis, condition)
        self.rows = CellSum(features, (*survey.axes(schema), *self.domains), counted=counted)
        self.half = np.array([block.half for block in basis.blocks[not counted :]])

    def _regressors(self, formula: str) -> tuple[tuple[DesignColumn, ...], list[str]]:
        compiled = two_sided(formula, self.schema)
        assert compiled.response is not None
        if compiled.design[0].term != "1":
            raise FormulaError(formula, "has no intercept", "keep it: columns are centred")
        return (*compiled.design, compiled.response), [
            _text(one, self.schema) for one in (*compiled.design[1:], compiled.response)
        ]

    def noise_weights(self, *, pure: bool) -> tuple[float, ...]:
        """Relative noise of each feature; features only for design effects have a separate share."""
        second = sum(self.extra)
        ratio = second / (len(self.extra) - second) * (1 - _EFFECT_SHARE) / _EFFECT_SHARE
        heavy = max(1.0, ratio if pure else ratio**0.5)
        return tuple(heavy if one else 1.0 for one in self.extra)

    def raw(self, *power: int) -> Array:
        """Return a sum as a combination of the released features (F,)."""
        found = np.zeros(len(self.half))
        place = self.lead + self.powers.index(tuple(sorted(power)))
        found[place] = self.half[place]
        return found

    def _by_domain(self, sums: Array, *, whole: bool = False) -> Array:
        """Return combinations of all released sums (p, K) from those of a cell (q, F), in each domain.

        Shares have one for each reported level, of that level's cell or of the ``whole`` domain.
        """
        cells = np.eye(self.rows.size // len(self.units.stratum))
        if self.kind != "proportion":
            return np.asarray(np.kron(cells, sums))
        axis = self.domains[-1]
        shown = np.eye(axis.size)[axis.size - len(levels_shown(axis)) :]
        part = np.ones_like(shown) if whole else shown
        return np.asarray(np.kron(np.kron(np.eye(len(cells) // axis.size), part), sums))

    def linearized(self, total: Array, error: Array) -> Linearized:
        """Compute estimates from totals (R, K) whose noise has these standard deviations (K,)."""
        if self.design:
            return self._least_squares(total, error)
        if self.kind == "proportion":
            top, bottom = (self._by_domain(self.raw()[None], whole=whole) for whole in (False, True))
            return ratios(total, error, top, bottom, np.zeros(len(top)), np.ones(len(top)))
        columns = np.array([self.raw(place) + middle * self.raw() for place, middle in enumerate(self.middle)])
        weights = np.repeat(self.raw()[None], len(columns), axis=0)
        top, bottom = (columns[:1], columns[1:]) if self.kind == "ratio" else (columns, weights)
        bounded = self.kind == "mean"
        lower, upper = ([getattr(one, end) if bounded else wide for one in self.terms[: len(top)]]
                        for end, wide in (("lower", -np.inf), ("upper", np.inf)))  # fmt: skip
        ends = (np.tile(one, self._by_domain(top).shape[0] // len(top)) for one in (lower, upper))
        below = None if self.kind == "total" else self._by_domain(bottom)
        return ratios(total, error, self._by_domain(top), below, *ends)

    def _least_squares(self, total: Array, error: Array) -> Linearized:
        """Solve with regressors divided by half their range, and transform back to their units."""
        reach = np.array([0.5 * (one.upper - one.lower) for one in self.terms])
        scale, count = np.append(1.0, reach), len(self.terms)
        products = np.array([[self.raw(*(place - 1 for place in pair if place)) / (scale[pair[0]] * scale[pair[1]])
                              for pair in ((row, column) for column in range(count + 1))]
                             for row in range(count)])  # fmt: skip
        back = np.diag(reach[-1] / scale[:-1])
        back[0, 1:] = -self.middle[:-1] * reach[-1] / reach[:-1]
        shift = np.append(self.middle[-1], np.zeros(count - 1))
        return least_squares(total, error, products[:, :-1], products[:, -1], back, shift)

    def effects(self, found: SurveyInference) -> Array:
        """Design effects (p,): sampling variance over that of a simple random sample; NaN where hidden."""
        total, noise = found.sums[0].sum(axis=0), len(self.units.stratum) * found.noise
        first = np.eye(len(self.half))[:1]  # the number of rows
        if self.kind == "proportion":
            rows, value = self._by_domain(first, whole=True), found.found.value[0]
            spread, blur = value * (1 - value), np.zeros(len(value))
        else:
            each = range(len(self.terms))
            rows = self._by_domain(np.repeat(first, len(each), axis=0))
            weights = self._by_domain(np.repeat(self.raw()[None], len(each), axis=0)) @ total
            linear, square = (self._by_domain(np.array([self.raw(*[one] * power) for one in each])) for power in (1, 2))
            scale = 1.0 if self.kind == "total" else 1 / weights
            spread = (square @ total - (linear @ total) ** 2 / weights) * scale**2 * weights
            blur = np.sqrt(square**2 @ noise) * scale**2 * np.abs(weights)
        count = rows @ total
        known = found.told & ~found.found.hidden[0] & (count > np.maximum(3 * np.sqrt(rows**2 @ noise), 1))
        known &= spread > _CERTAIN * blur
        simple = np.where(known, spread, 1.0) / np.where(known, count - 1, 1.0)
        return np.where(known, np.diag(found.cov_sampling) / simple, np.nan)

    @property
    def used(self) -> int:
        """Number of regressors besides the constant."""
        return max(len(self.design) - 2, 0)

    @cached_property
    def described(self) -> Described:
        """Names and labels of the estimates: by domain, with the quantity if there are several or no domains."""
        shares = self.kind == "proportion"
        quantities = levels_shown(self.domains[-1]) if shares else [one.text for one in self.terms]
        quantities = [" / ".join(quantities)] if self.kind == "ratio" else quantities
        return Described(SumPlan("total", self.schema), quantities, self.domains[: len(self.domains) - shares])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(one.name for one in self.design[:-1]) or self.described.names


def _weight(text: str, schema: Schema) -> Expression:
    """Compile weights; refuse weights that may be negative."""
    found = compile_expression(text, schema)
    right = f"a column whose lower bound is not negative, not {found.lower:g}"
    require(found.lower >= 0 and found.constant is None, "weights", text, right)
    return found


def _text(column: DesignColumn, schema: Schema) -> str:
    """Write a column of a design as an expression: a level of a category is a condition."""
    parts = [] if column.expression.text == "1" else [f"({column.expression.text})"]
    for name, weights in column.codings:
        levels = zip(weights, schema[name].level_values, strict=True)
        terms = [f"{weight!r} * ({quoted(name)} == {level!r})" for weight, level in levels if weight]
        parts.append(f"({' + '.join(terms)})")
    return " * ".join(parts)
