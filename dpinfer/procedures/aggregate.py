"""Sample-and-aggregate: any statsmodels model, or any function of a frame, fitted to secret blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpinfer.errors import OptionError, ReleaseFormatError
from dpinfer.inference.aggregate import AggregateInference, edge_warnings, read_block_sums
from dpinfer.inference.block_frames import Frame
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts
from dpinfer.kernel.stage import Context, Data, Slot, Stage
from dpinfer.procedures.block_forecast import told
from dpinfer.procedures.block_model import BlockModel, Link, check_picklable, native, own_options, told_options
from dpinfer.procedures.block_plan import FEWEST, MOST, BlockPlan, number_of_blocks, rows_of, small_blocks
from dpinfer.procedures.conditions import compiled_where, told_where, where_notes
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import Allowed, inferred, measured, one_of, texts_of, unstored
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.stored import context_of
from dpinfer.results.aggregate import AggregateResults
from dpinfer.schema.region import Region

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.balls import Ball
    from dpinfer.schema.schema import Schema

__all__ = ["SampleAggregate", "sample_aggregate"]

Aggregator = Literal["winsorized", "mean"]
Correction = Literal["half_blocks", "none"]
Method = Literal["auto", "wald"]

_DOUBT = 4.0
"""Standard deviations by which a noisy number of rows may be too small: noise does so once in 30,000, or in 500 if
Laplace's."""

_LARGEST_SUM = 1e20
"""Bound on noisy sums, in units of the ball; the largest noise that can be drawn is far below."""


_BLOCKS = Allowed(
    lambda given: given == "auto" or (type(given) is int and FEWEST <= given <= MOST),
    f'"auto" or a whole number from {FEWEST} to {MOST:,}',
)
_ROWS = Allowed(lambda given: given is None or (type(given) is int and given >= 2), "2 or more rows, or None")
_TRUTH = Allowed(lambda given: type(given) is bool, (True, False))
_JOBS = Allowed(
    lambda given: given is None or (type(given) is int and given != 0),
    "a number of processes, -1 for all cores, or None",
)


@dataclass(frozen=True, eq=False)
class SampleAggregate(Procedure):
    """A model fitted to blocks of rows. See `sample_aggregate`.

    The fields that are None or "auto" until a run resolves them are ``region``, ``blocks``, ``response``, ``link`` and
    ``nobs``; ``aggregator`` is then what the price suffices for. A release holds them, and of the model its name.
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
    nobs: float | None = None
    max_block_rows: int | None = measured(None, _ROWS)
    inference: Method = inferred("auto", one_of(get_args(Method)))
    fits: BlockModel | None = unstored(None)
    n_jobs: int | None = unstored(None, _JOBS)
    progress: bool = unstored(False, _TRUTH)

    def check_options(self) -> None:
        """Refuse an invalid number of rows."""
        rows_of(self.nobs)

    # The question

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        asked = self.formula if isinstance(self.formula, str) else ", ".join(self.formula)
        return f"sample_aggregate: {self.model} of {asked}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a model, region, condition or number of blocks that the schema cannot serve."""
        self._placed(schema, neighbors, self.source.nobs if isinstance(self.source, Data) else None)

    def _placed(self, schema: Schema, neighbors: Neighbors, public: int | None) -> SampleAggregate:
        """Return the question with its region, number of blocks, response and link.

        The number of blocks stays "auto" where no number of rows is known: it is then read from a noisy count.
        """
        if self.region is not None:
            return self
        prepared = self._runnable.prepared(self.formula, schema)
        nobs = float(public) if self.nobs is None and public is not None else self.nobs
        counted = neighbors == "add_remove" or schema.people is not None
        size, halves = len(prepared.region.names), self.bias_correction == "half_blocks"
        most = self.max_block_rows
        blocks = number_of_blocks(self.blocks, nobs, size, counted=counted, halves=halves, most=most)
        self._columns(schema)
        return replace(
            self, region=prepared.region, blocks=blocks, response=prepared.response, link=prepared.link, nobs=nobs
        )

    @property
    def unidentified(self) -> str:
        """A function of your own, and options that are objects: a release holds their names."""
        return "" if self.fits is None else self.fits.unidentified

    @property
    def _runnable(self) -> BlockModel:
        if self.fits is None:
            raise OptionError("model", self.model, "the model itself: a release holds its name alone, and runs nothing")
        return self.fits

    @cached_property
    def _resolved(self) -> dict[Context, SampleAggregate]:
        return {}

    def resolve(self, context: Context) -> SampleAggregate:
        """Return the question as it is run: with its region and number of blocks, and located if the price suffices."""
        if context not in self._resolved:
            found = self._placed(context.schema, context.neighbors, context.nobs)
            aggregator: Aggregator = "winsorized" if found._compiled(context).located else "mean"
            self._resolved[context] = found if aggregator == found.aggregator else replace(found, aggregator=aggregator)
        return self._resolved[context]

    def _columns(self, schema: Schema) -> Schema:
        """Return the columns that the model and the condition read; for a release, all columns that it holds."""
        columns = schema if self.fits is None else self.fits.prepared(self.formula, schema).schema
        condition = compiled_where(self.where, schema)
        if condition is None:
            return columns
        return schema.select([name for name in schema if name in columns or name in condition.columns])

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Columns of the data that are read."""
        return tuple(self._columns(context.schema))

    # What is measured

    def plan(self, context: Context) -> BlockPlan:
        """Return what is summed at a price; the same object for pricing, rehearsing and running."""
        return self.resolve(context)._compiled(context)

    @cached_property
    def _plans(self) -> dict[Context, BlockPlan]:
        return {}

    def _compiled(self, context: Context) -> BlockPlan:
        if context not in self._plans:
            region, blocks = self._known
            self._plans[context] = BlockPlan(
                schema=self._columns(context.schema),
                region=region,
                count=None if blocks == "auto" else blocks,
                halves=self.bias_correction == "half_blocks",
                winsorized=self.aggregator == "winsorized",
                context=context,
                where=self.where,
            )
        return self._plans[context]

    def units(self, context: Context) -> Blocks:
        """Return how rows are dealt into blocks, and what is fitted to them.

        Raises
        ------
        OptionError
            If the model is not known, or cannot be sent to other processes.
        """
        plan, estimator = self.plan(context), self._runnable.prepared(self.formula, context.schema).estimator
        blocks = Blocks(
            schema=plan.schema,
            region=plan.region,
            count=plan.count,
            estimator=estimator,
            halves=plan.halves,
            where=compiled_where(self.where, context.schema),
            most=self.max_block_rows,
            workers=self.n_jobs,
            progress=self.progress,
        )
        alone = context.public and self.n_jobs in (None, 1)
        if not (blocks.trusted or alone):
            check_picklable(estimator)
        return blocks

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Give small shares to a count of rows and histograms of scale and place, the rest to sums over the blocks."""
        return self.plan(context).slots

    def blocks_dealt(self, context: Context, released: tuple[StageRelease, ...]) -> int:
        """Return the number of blocks, which a noisy count of rows may have settled."""
        return self.plan(context).dealt(released)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their place, then sums of estimates winsorised there."""
        return self.plan(context).stage(place, released)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and what is to be expected of the estimates: with what
            probability they are not located, and their error, over that of sampling or in units of the parameters.
        """
        plan = self.plan(measured.context)
        blocks = f"in {plan.count:,} secret blocks" if plan.count is not None else "in secret blocks"
        lines = [f"question     {measured.text}, {blocks}", measured.describe()]
        lines += [f"region       {plan.region.describe()}"]
        own = self.resolve(measured.context)._native
        lines += [f"native       {own}"] if own else []
        return "\n".join([*lines, *told(replace(plan, winsorized=self.aggregator == "winsorized"))])

    # Inference

    @property
    def about(self) -> object:
        """The model and the rows; the number of blocks does not matter."""
        return type(self), self.formula, self.model, self.model_options, self.fit_options, self.where

    def infer(self, release: Release | None = None) -> AggregateResults:
        """Infer from a release of this question: free, and without any row."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, SampleAggregate)
        region, _ = theirs._known
        blocks, counted = theirs._dealt(found), theirs._counted(found)
        nobs, doubt = (theirs.nobs, 0.0) if counted is None else counted
        halves, most = theirs.bias_correction == "half_blocks", theirs.max_block_rows
        inference = AggregateInference(
            names=region.names,
            blocks=read_block_sums(found.stages[-1], blocks, len(region.names)),
            frame=Frame.from_dict(found.stages[-1].settings, len(region.names)),
            nobs=counted[0] if counted else None if found.nobs is None else float(found.nobs),
            nobs_is_public=found.nobs is not None,
            sought=theirs.aggregator == "winsorized",
            notes=small_blocks(nobs, blocks, len(region.names), halves=halves, doubt=doubt, most=most),
        )
        inference = replace(inference, notes=(*inference.notes, *edge_warnings(inference, region)))
        return AggregateResults(
            inference,
            found,
            model_name=f"Private {theirs.model}",
            response=theirs.response,
            notes=theirs._notes(blocks),
            link=theirs.link,
        )

    def check_release(self, release: Release) -> None:
        """Refuse a release that lacks what a run resolves, or whose sums are not those that the question asks for."""
        region, _ = self._known
        columns, last = self._columns(release.schema), release.stages[-1]
        frame = Frame.from_dict(last.settings, len(region.names))
        expected = [BlockMoments(columns, region, tuple(frame.center.tolist()), tuple(frame.half.tolist())).names]
        if self.aggregator == "winsorized":
            expected = [OctaveCounts(columns, region).names, release.stages[-2].names, *expected]
        if self.blocks == "auto":
            expected = [self._compiled(context_of(release)).counting.measure.names, *expected]
        self._dealt(release)
        if [stage.names for stage in release.stages] != expected:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        if release.law.family == "tulap" or not (np.abs(release.array) <= _LARGEST_SUM).all():
            raise ReleaseFormatError("the sums of the release are not such as blocks give")

    @property
    def _known(self) -> tuple[Region, int | Literal["auto"]]:
        """Region and number of blocks of a question that is resolved; "auto" where rows are counted first."""
        if self.region is None or self.response is None:
            raise ReleaseFormatError("region or response is of a wrong type: a release holds what was run")
        return self.region, self.blocks

    def _dealt(self, release: Release) -> int:
        """Return the number of blocks of a release; where it was read from a noisy count, the last stage holds it."""
        found = self.blocks if self.blocks != "auto" else release.stages[-1].settings["blocks"]
        if type(found) is not int or not FEWEST <= found <= MOST:
            raise ReleaseFormatError("blocks: not a number of blocks")
        return found

    def _counted(self, release: Release) -> tuple[float, float] | None:
        """Return the noisy number of rows that settled the number of blocks, and by how much it may be too small."""
        if self.blocks != "auto":
            return None
        first = release.stages[0]
        return float(first.array[0]), _DOUBT * float(np.sqrt(first.noise_variances[0]))

    def _notes(self, blocks: int) -> tuple[str, ...]:
        """Say in the tables what the method is."""
        region, _ = self._known
        located = self.aggregator == "winsorized"
        bounded = "winsorised around where most of them are" if located else "bounded by the declared region"
        corrected = ", each corrected for bias by its halves" if self.bias_correction == "half_blocks" else ""
        found = (
            f"Sample and aggregate: the mean over {blocks:,} secret blocks of rows of the block's own "
            f"estimate{corrected}, {bounded}.",
            f"Declared region: {region.describe()}.",
        )
        return (*found, *([self._native] if self._native else []), *where_notes(self.where))

    @property
    def _native(self) -> str | None:
        """Name the library's own regression that fits the model, if there is one."""
        own = native(self.model, self.model_options, self.link) if isinstance(self.formula, str) else None
        return own and f"dpi.{own} fits this model to all rows at once, usually with a third of the error or less."


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
    """Fit any statsmodels model, or any function of a frame, to secret blocks of rows, and release noisy averages.

    Parameters
    ----------
    formula : str, or sequence of str
        A formula for statsmodels; with a function of your own the columns that its frame has.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    model : statsmodels model class or formula function, or callable
        ``smf.logit``, ``smf.quantreg``, ``smf.phreg``, ``OrderedModel`` and so on; or a function of a DataFrame that
        returns a vector of fixed length and depends on nothing else.
    blocks : int or "auto"
        Number k of blocks. "auto" makes them as small as bias allows, from a number of rows that is public
        (replace_one) or given as ``nobs``; else rows are counted with noise, for a fiftieth of the price.
    bounds : Ball, (lower, upper), or mapping of name or tuple of names to such
        The region in which the parameters are declared to lie: `Ball` for a group of them, a pair for intervals.
        Estimates beyond it are moved into it.
    aggregator : {"winsorized", "mean"}
        Find privately where the block estimates are and bound them there; or bound them by the region alone, which
        is also done where the price does not suffice for more.
    bias_correction : {"half_blocks", "none"}
        Take off the bias of order 1/m of a block of m rows: 2 t - (t_A + t_B)/2, with t_A and t_B from its halves.
    names : sequence of str, optional
        What the parameters are called; by default as statsmodels calls them, or by the keys of ``bounds``.
    model_options, fit_options : mapping, optional
        Arguments of the model, such as ``{"family": sm.families.Gamma()}`` or ``{"status": "died"}`` (``status``,
        ``entry``, ``offset``, ``exposure`` and weights are names of columns), and of its ``fit``: ``{"q": 0.5}``.
    where : str, optional
        A condition on declared columns; other rows are left out.
    nobs : float, Release or results, optional
        A number of rows that is public, or was released before; chooses the blocks and refuses too small ones.
    max_block_rows : int, optional
        Rows of a block that are fitted at most, drawn at random: a bound on memory that does not depend on rows.
    inference : {"auto", "wald"}
    n_jobs : int, optional
        Worker processes; by default all cores for private data, this process for public data.
    progress : bool
        Show a bar over the blocks.

    Returns
    -------
    SampleAggregate
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If the region is missing, reversed or does not cover the parameters; if a function's length is not known; if
        blocks would be too small, or their number cannot be chosen; if the model takes no formula.
    FormulaError, UnknownColumnError, SchemaError
        If the formula does not suit the schema or the model, before anything is spent.
    NotProvedError
        For models of groups of rows.

    Notes
    -----
    Smith (2008, 2011). A row is in one block, by a secret label of its own, so that a neighbour changes one block
    estimate, from anywhere to anywhere in the region: nothing need be known of the model. Columns are typed by the
    schema and clamped to its bounds, which cost nothing here: declare them wide. Fits run in processes of their own;
    what they print, warn or raise is not seen, and a fit that fails counts as the centre of the region. Running time
    is outside of the threat model. See `docs/sample-aggregate.md`.

    `ols`, `logit`, `probit`, `poisson`, `glm`, `rlm` and `quantreg` have a third of the error or less, and need no
    region: this serves the models that they do not.

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
    fits = BlockModel(
        model=model,
        bounds=bounds,
        names=None if names is None else _texts("names", names),
        model_options=own_options("model_options", model_options),
        fit_options=own_options("fit_options", fit_options),
    )
    return SampleAggregate.asking(
        locals(),
        formula=formula if isinstance(formula, str) else _texts("formula", formula),
        model=fits.called,
        model_options=told_options(fits.model_options),
        fit_options=told_options(fits.fit_options),
        nobs=rows_of(nobs),
    )


def _texts(option: str, given: object) -> tuple[str, ...]:
    listed = () if isinstance(given, str) else texts_of(given)
    if not listed or not all(listed) or len(set(listed)) < len(listed):
        raise OptionError(option, given, "a list of distinct texts")
    return listed
