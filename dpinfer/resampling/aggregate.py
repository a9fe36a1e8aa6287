"""Sample-and-aggregate: any statsmodels model, or any function of a frame, fitted to secret blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from scipy import special

from dpinfer.checks import TRUTH, Allowed, is_number, of_type, one_of, texts_of
from dpinfer.errors import NotProvedError, OptionError, ReleaseFormatError, type_of
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts
from dpinfer.kernel.stage import Context, Data, Slot, Stage
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import compiled_where, inferred, measured, told_where, unstored, where_notes
from dpinfer.procedures.procedure import Procedure, context_of
from dpinfer.release import Release, StageRelease
from dpinfer.resampling.blocks import FEWEST, MOST, BlockPlan, Frame, forecast_lines, number_of_blocks, small_blocks
from dpinfer.resampling.inference import AggregateInference, BlockSums, edge_warnings
from dpinfer.resampling.models import BlockModel, Link, NewtonEstimator, check_picklable, native_notes, stored_options
from dpinfer.results.base import PrivateResults
from dpinfer.schema.region import Ball, Region

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.results.prediction import MeanPrediction
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array


Aggregator = Literal["winsorized", "mean"]
Correction = Literal["half_blocks", "none"]
Method = Literal["auto", "wald"]

_DOUBT = 4.0
"""Standard deviations by which a noisy number of rows may be too small: noise does so once in 30,000, or in 500 if
Laplace's."""

_LARGEST_SUM = 1e20
"""Bound on noisy sums, in units of the ball; the largest noise that can be drawn is far below."""


_BLOCKS = Allowed(
    lambda n: n == "auto" or (type(n) is int and FEWEST <= n <= MOST),
    f'"auto" or a whole number from {FEWEST} to {MOST:,}',
)
_ROWS = Allowed(lambda n: n is None or (type(n) is int and n >= 2), "2 or more rows, or None")
_NOBS = Allowed(lambda n: n is None or (is_number(n) and 1 <= n <= 2**53), "a number of rows of at least 1")
_JOBS = Allowed(lambda n: n is None or (type(n) is int and n != 0), "a number of processes, -1 for all cores, or None")


@dataclass(frozen=True, eq=False)
class SampleAggregate(Procedure):
    """A model fitted to blocks of rows. See `sample_aggregate`.

    The fields ``region``, ``blocks``, ``response``, ``link`` and ``nobs`` are None or "auto" until a run resolves them;
    ``aggregator`` then depends on the privacy parameters. A release stores them, and the name of the model.
    """

    procedures = ("sample_aggregate",)

    formula: str | tuple[str, ...] = ""
    model: str = ""
    model_options: Mapping[str, str] = field(default_factory=dict)
    fit_options: Mapping[str, str] = field(default_factory=dict)
    region: Region | None = None
    blocks: int | Literal["auto"] = measured("auto", _BLOCKS)
    aggregator: Aggregator = measured("winsorized", one_of(get_args(Aggregator)))
    bias_correction: Correction = measured("half_blocks", one_of(get_args(Correction)))
    response: str | None = None
    link: Link | None = None
    where: str | None = None
    nobs: float | None = measured(None, _NOBS)
    max_block_rows: int | None = measured(None, _ROWS)
    inference: Method = inferred("auto", one_of(get_args(Method)))
    fits: BlockModel | None = unstored(None)
    n_jobs: int | None = unstored(None, _JOBS)
    progress: bool = unstored(default=False, allowed=TRUTH)

    # The question

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        fitted = self.formula if isinstance(self.formula, str) else ", ".join(self.formula)
        return f"sample_aggregate: {self.model} of {fitted}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a model, region, condition or number of blocks that does not suit the schema."""
        self._placed(schema, neighbors, self.source.nobs if isinstance(self.source, Data) else None)

    def _placed(self, schema: Schema, neighbors: Neighbors, public: int | None) -> SampleAggregate:
        """Return the question with its region, number of blocks, response and link.

        The number of blocks stays "auto" if no number of rows is known; it is then chosen from a noisy count.
        """
        if self.region is not None:
            return self
        prepared = self._runnable.prepared(self.formula, schema)
        nobs = float(public) if self.nobs is None and public is not None else self.nobs
        counted = neighbors == "add_remove" or schema.people is not None
        size, most = len(prepared.region.names), self.max_block_rows
        blocks = number_of_blocks(self.blocks, nobs, size, counted=counted, halves=self._halves, most=most)
        self._columns(schema)
        found: dict[str, Any] = {"region": prepared.region, "response": prepared.response, "link": prepared.link}
        return replace(self, blocks=blocks, nobs=nobs, **found)

    @property
    def _halves(self) -> bool:
        """Whether half-blocks are fitted as well."""
        return self.bias_correction == "half_blocks"

    @property
    def unidentified(self) -> str:
        """A user-defined function and options that are objects, of which a release stores only names."""
        return "" if self.fits is None else self.fits.unidentified

    @property
    def _runnable(self) -> BlockModel:
        if self.fits is None:
            raise OptionError("model", self.model, "the model itself: a release holds only its name")
        return self.fits

    @cached_property
    def _planned(self) -> dict[Context, tuple[SampleAggregate, BlockPlan]]:
        return {}

    def _at(self, context: Context) -> tuple[SampleAggregate, BlockPlan]:
        """Return the resolved question and its plan; the same objects for pricing, rehearsal and the run."""
        if context not in self._planned:
            found = self._placed(context.schema, context.neighbors, context.nobs)
            plan = found._compiled(context)
            if found.aggregator == "winsorized" and not plan.located:
                found, plan = replace(found, aggregator="mean"), replace(plan, winsorized=False)
            self._planned[context] = found._planned[context] = found, plan
        return self._planned[context]

    def resolve(self, context: Context) -> SampleAggregate:
        """Return the resolved question, with its region, number of blocks and aggregator."""
        return self._at(context)[0]

    def plan(self, context: Context) -> BlockPlan:
        """Return the plan under given privacy parameters."""
        return self._at(context)[1]

    def _compiled(self, context: Context) -> BlockPlan:
        count, winsorized = None if self.blocks == "auto" else self.blocks, self.aggregator == "winsorized"
        columns = self._columns(context.schema)
        return BlockPlan(columns, self._declared, count, self._halves, winsorized, context, self.where)

    def _columns(self, schema: Schema) -> Schema:
        """Return the columns of the model and the condition; for a release, all its columns."""
        columns = schema if self.fits is None else self.fits.prepared(self.formula, schema).schema
        condition = compiled_where(self.where, schema)
        if condition is None:
            return columns
        return schema.select([name for name in schema if name in columns or name in condition.columns])

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Columns of the data that are read."""
        return tuple(self._columns(context.schema))

    # What is measured

    def units(self, context: Context) -> Blocks:
        """Return the assignment of rows to blocks, and the model fitted to each.

        Raises
        ------
        OptionError
            If the model is unknown, or cannot be sent to other processes.
        """
        plan, model = self.plan(context), self._runnable.prepared(self.formula, context.schema)
        where = compiled_where(self.where, context.schema)
        options: dict[str, Any] = {"most": self.max_block_rows, "workers": self.n_jobs, "progress": self.progress}
        estimator = model.estimator
        if plan.halves and isinstance(estimator, NewtonEstimator):
            estimator = replace(estimator, reduced=True)
        blocks = Blocks(plan.schema, plan.region, plan.count, estimator, plan.halves, where, **options)
        alone = context.public and self.n_jobs in (None, 1)
        if not (blocks.trusted or alone):
            check_picklable(estimator)
        return blocks

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Split the budget: small shares for a row count and histograms of scale and location, the rest for sums."""
        return self.plan(context).slots

    def blocks_dealt(self, context: Context, released: tuple[StageRelease, ...]) -> int:
        """Return the number of blocks, which may follow from a noisy count of rows."""
        return self.plan(context).settled(released).known

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their location, then sums of winsorised estimates."""
        return self.plan(context).stage(place, released)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and its noise, before any budget is spent.

        Returns
        -------
        str
            The measurement, its bound, noise and guarantee; the probability that the estimates are not located; and
            their expected error, relative to the sampling error or in units of the parameters.
        """
        plan = self.plan(measured.context)
        blocks = f"in {plan.count:,} secret blocks" if plan.count is not None else "in secret blocks"
        lines = [f"question     {measured.text}, {blocks}", measured.describe()]
        lines += [f"region       {plan.region.describe()}"]
        lines += [f"native       {note}" for note in self.resolve(measured.context)._native]
        return "\n".join([*lines, *forecast_lines(replace(plan, winsorized=self.aggregator == "winsorized"))])

    # Inference

    @property
    def about(self) -> object:
        """The model and the rows; the number of blocks does not matter."""
        return type(self), self.formula, self.model, self.model_options, self.fit_options, self.where

    def infer(self, release: Release | None = None) -> AggregateResults:
        """Infer from a stored release of this question, at no further privacy cost."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, SampleAggregate)
        region, blocks, last = theirs._declared, theirs._dealt(found), found.stages[-1]
        size, doubt, nobs = len(region.names), 0.0, theirs.nobs
        counted = None if found.nobs is None else float(found.nobs)
        if theirs.blocks == "auto":  # a noisy number of rows settled the number of blocks
            first = found.stages[0]
            counted = nobs = float(first.array[0])
            doubt = _DOUBT * float(np.sqrt(first.noise_variances[0]))
        notes = small_blocks(nobs, blocks, size, halves=theirs._halves, doubt=doubt, most=theirs.max_block_rows)
        sums, frame = BlockSums.of_stage(last, blocks, size), Frame.from_dict(last.settings, size)
        public, winsorized = found.nobs is not None, theirs.aggregator == "winsorized"
        known: dict[str, Any] = {"nobs": counted, "nobs_is_public": public, "notes": notes}
        inference = AggregateInference(region.names, sums, frame, winsorized, **known)
        inference = replace(inference, notes=(*notes, *edge_warnings(inference, region)))
        bounded = "winsorized around their bulk" if winsorized else "bounded by the declared region"
        corrected = ", each bias-corrected by its halves" if theirs._halves else ""
        notes = (
            f"Sample and aggregate: the mean of the estimates of {blocks:,} secret blocks of rows{corrected}, "
            f"{bounded}.",
            f"Declared region: {region.describe()}.",
            *theirs._native,
            *where_notes(theirs.where),
        )
        shown: dict[str, Any] = {"response": theirs.response, "link": theirs.link, "notes": notes}
        return AggregateResults(inference, found, model_name=f"Private {theirs.model}", **shown)

    def check_release(self, release: Release) -> None:
        """Refuse a release that lacks resolved fields, or whose sums are not those of the question."""
        region, columns = self._declared, self._columns(release.schema)
        frame = Frame.from_dict(release.stages[-1].settings, len(region.names))
        expected = [BlockMoments(columns, region, tuple(frame.center.tolist()), tuple(frame.half.tolist())).names]
        if self.aggregator == "winsorized":
            expected = [OctaveCounts(columns, region).names, release.stages[-2].names, *expected]
        if self.blocks == "auto":
            expected = [self._compiled(context_of(release)).counting.measure.names, *expected]
        self._dealt(release)
        if [stage.names for stage in release.stages] != expected:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        if release.law.family == "tulap" or not (np.abs(release.array) <= _LARGEST_SUM).all():
            raise ReleaseFormatError("the sums of the release cannot be those of blocks")

    @property
    def _declared(self) -> Region:
        """The region of a resolved question."""
        if self.region is None or self.response is None:
            raise ReleaseFormatError("region or response is of a wrong type: a release holds what was run")
        return self.region

    def _dealt(self, release: Release) -> int:
        """Return the number of blocks of a release; if chosen from a noisy count, the last stage stores it."""
        found = self.blocks if self.blocks != "auto" else release.stages[-1].settings["blocks"]
        if type(found) is not int or not FEWEST <= found <= MOST:
            raise ReleaseFormatError("the number of blocks is not valid")
        return found

    @property
    def _native(self) -> list[str]:
        """Return the name of the library's own regression for the model, if there is one."""
        return native_notes(self.formula, self.model, self.model_options, self.link)


@suggests
def sample_aggregate(
    formula: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    model: Any,
    blocks: int | Literal["auto"] = "auto",
    bounds: Ball | tuple[Any, Any] | Mapping[Any, Any] | None = None,
    aggregator: Aggregator = "winsorized",
    bias_correction: Correction = "half_blocks",
    names: Sequence[str] | None = None,
    model_options: Mapping[str, Any] | None = None,
    fit_options: Mapping[str, Any] | None = None,
    where: str | None = None,
    nobs: Any = None,
    max_block_rows: int | None = None,
    inference: Method = "auto",
    n_jobs: int | None = None,
    progress: bool = False,
) -> SampleAggregate:
    """Fit any statsmodels model or function to secret blocks of rows, and release noisy averages.

    Parameters
    ----------
    formula : str, or sequence of str
        A formula for statsmodels; for a user-defined function, the columns of its frame.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    model : statsmodels model class or formula function, or callable
        ``smf.logit``, ``smf.quantreg``, ``smf.phreg``, ``OrderedModel`` and so on; or a function of a DataFrame alone
        that returns a vector of fixed length.
    blocks : int or "auto"
        Number k of blocks. "auto" makes them as small as bias allows, given a number of rows that is public
        (replace_one) or given as ``nobs``; otherwise a noisy count of rows takes a fiftieth of the budget.
    bounds : Ball, (lower, upper), or mapping of name or tuple of names to such
        The declared region of the parameters: `Ball` for a group of them, a pair for intervals. Estimates outside it
        are projected onto it.
    aggregator : {"winsorized", "mean"}
        "winsorized" locates the block estimates privately and winsorizes them there. "mean" bounds them by the region
        alone, which is also the fallback if the budget is too small to locate them.
    bias_correction : {"half_blocks", "none"}
        "half_blocks" removes the bias of order 1/m of a block of m rows: 2 t - (t_A + t_B)/2, with t_A and t_B from its
        halves. Logits without options are then fitted by Firth's (1993) penalised likelihood.
    names : sequence of str, optional
        Names of the parameters; by default those of statsmodels, or the keys of ``bounds``.
    model_options, fit_options : mapping, optional
        Arguments of the model, such as ``{"family": sm.families.Gamma()}`` or ``{"status": "died"}`` (``status``,
        ``entry``, ``offset``, ``exposure`` and weights are names of columns), and of its ``fit``: ``{"q": 0.5}``.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    nobs : float, Release or results, optional
        A public or previously released number of rows, used to choose the blocks and to refuse blocks that are too
        small.
    max_block_rows : int, optional
        Largest number of rows fitted per block, drawn at random: a bound on memory that does not depend on the data.
    inference : {"auto", "wald"}
    n_jobs : int, optional
        Worker processes; by default all cores for private data, this process for public data.
    progress : bool
        Whether to show a progress bar over the blocks.

    Returns
    -------
    SampleAggregate
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If the region is missing, reversed or does not cover the parameters; if the length of a function's result is
        unknown; if blocks would be too small, or their number cannot be chosen; if the model takes no formula.
    FormulaError, UnknownColumnError, SchemaError
        If the formula does not suit the schema or the model, before any budget is spent.
    NotProvedError
        For models of groups of rows.

    Notes
    -----
    The method is that of Smith (2008, 2011). A secret label assigns each row to one block, so neighbouring data sets
    differ in one block estimate, anywhere in the region; the model is a black box. Columns are typed by the schema and
    clipped to its bounds; wide bounds add no noise here. Fits run in separate processes; their output, warnings and
    errors are not shown, and a failed fit is replaced by the centre of the region. Running time is outside the threat
    model. See `docs/sample-aggregate.md`.

    Use this for models other than those of `ols`, `logit`, `probit`, `poisson`, `glm`, `rlm` and `quantreg`, which have
    a third of the error or less and need no region.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import statsmodels.formula.api as smf
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(4)
    >>> x = rng.uniform(-1, 1, 20_000)
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-x))
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Boolean())
    >>> data = dpi.PublicData(pd.DataFrame({"x": x, "y": y}), schema, rng=rng, neighbors="replace_one")
    >>> question = dpi.sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4))
    >>> question.fit(dpi.ZCDP(0.5)).params.round(1).to_dict()
    {'Intercept': 0.0, 'x': 1.0}
    """
    options: dict[str, Any] = {"model_options": model_options, "fit_options": fit_options}
    for name, given in options.items():
        of_type((Mapping, NoneType), name, given, "a mapping of argument names to values", hidden=True)
        options[name] = dict(given or {})  # later changes by the caller do not change the model
    fits = BlockModel(model=model, bounds=bounds, names=None if names is None else _texts("names", names), **options)
    stored = {name: stored_options(given) for name, given in options.items()}
    fitted = formula if isinstance(formula, str) else _texts("formula", formula)
    return SampleAggregate.asking(locals(), formula=fitted, model=fits.called, nobs=rows_of(nobs), **stored)


def _texts(option: str, given: object) -> tuple[str, ...]:
    listed = () if isinstance(given, str) else texts_of(given)
    if not listed or not all(listed) or len(set(listed)) < len(listed):
        raise OptionError(option, given, "a list of distinct texts")
    return listed


def rows_of(nobs: object) -> float | None:
    """Return a number of rows, given as a number, or taken from a release or results."""
    found = nobs
    if nobs is not None and not is_number(nobs):
        found = getattr(nobs, "nobs", None)
        if found is None and isinstance(nobs, Release):
            found = nobs.array[0] if nobs.kind == "gram" else getattr(nobs.infer(), "nobs", None)
        if not is_number(found):
            raise OptionError("nobs", type_of(nobs), "a number of rows that is public, or a release that holds one")
    _NOBS.check("nobs", found)
    return None if nobs is None else float(found)  # type: ignore[arg-type]


# Results


INVERSE_LINKS: dict[str, Callable[[Array], Array] | None] = {
    "identity": None,
    "logit": special.expit,
    "probit": special.ndtr,
    "log": np.exp,
}
"""By link, for models whose parameters are the coefficients of one linear predictor."""


class AggregateResults(PrivateResults):
    """Estimated parameters of a model by sample-and-aggregate.

    Parameters
    ----------
    *args, **options
        As in `PrivateResults`, without ``inverse_link``.
    link : str or None
        A key of `INVERSE_LINKS`; None if the parameters are not the coefficients of one linear predictor.
    """

    def __init__(self, *args: Any, link: str | None, **options: Any) -> None:
        super().__init__(*args, **{**options, "inverse_link": INVERSE_LINKS[link or "identity"]})
        self._link = link

    def with_inference(self, method: str) -> Self:
        """Return the same estimates under another method of inference; see `PrivateResults.with_inference`."""
        return self._inferred(method)

    def get_prediction(self, exog: object) -> MeanPrediction:
        """Return predicted means at public design points; see `PrivateResults.get_prediction`.

        Raises
        ------
        NotProvedError
            If the parameters are not the coefficients of one linear predictor.
        """
        if self._link is None:
            raise NotProvedError(
                f"predictions of {self._model_name} are not available: its parameters are not the coefficients of one "
                "linear predictor"
            )
        return super().get_prediction(exog)
