"""Sample-and-aggregate: any statsmodels model, or any function of a frame, fitted to secret blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.aggregate import METHODS
from dpinfer.inference.block_frames import bins_of, find_frame, find_scales, limit, whole_frame
from dpinfer.kernel.pickling import check_picklable
from dpinfer.kernel.price import amounts
from dpinfer.kernel.rows.blocks import BINS, OCTAVES, BlockMoments, Blocks, OctaveCounts, PlaceCounts
from dpinfer.kernel.stage import Data, Slot, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.block_estimators import formula_estimator, model_class, probe_names
from dpinfer.procedures.block_plan import (
    FEWEST,
    MOST,
    BlockShares,
    block_shares,
    count_noise,
    number_of_blocks,
    rows_of,
    stretch,
)
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.aggregate import (
    AGGREGATORS,
    CORRECTIONS,
    AggregateQuestion,
    AggregateResults,
    infer_aggregate,
)
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.region import region_names, region_of

if TYPE_CHECKING:
    from dpinfer.inference.block_frames import Frame
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.region import Ball
    from dpinfer.schema.schema import Schema

__all__ = ["SampleAggregate", "sample_aggregate"]

_LINKS = {
    "Logit": "logit",
    "Probit": "probit",
    "Poisson": "log",
    **dict.fromkeys(("OLS", "WLS", "GLS", "RLM", "QuantReg"), "identity"),
}


@dataclass(frozen=True, eq=False)
class SampleAggregate(Procedure):
    """A model fitted to blocks of rows. See `sample_aggregate`."""

    formula: str | tuple[str, ...] = ""
    model: Any = None
    blocks: int | str = "auto"
    bounds: Any = None
    aggregator: str = "winsorized"
    bias_correction: str = "half_blocks"
    names: tuple[str, ...] | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    nobs: Any = None
    inference: str = "auto"
    n_jobs: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not depend on the schema, and with data what does."""
        super().__post_init__()
        choices = {
            "aggregator": (self.aggregator, AGGREGATORS),
            "bias_correction": (self.bias_correction, CORRECTIONS),
            "inference": (self.inference, METHODS),
        }
        for name, (given, right) in choices.items():
            if given not in right:
                raise OptionError(name, given, right)
        whole = type(self.blocks) is int and FEWEST <= self.blocks <= MOST
        if not (whole or self.blocks == "auto"):
            raise OptionError("blocks", self.blocks, f'"auto" or a whole number from {FEWEST} to {MOST:,}')
        if self.n_jobs is not None and (type(self.n_jobs) is not int or self.n_jobs == 0):
            raise OptionError("n_jobs", self.n_jobs, "a number of processes, -1 for all cores, or None")
        for name, options in (("model_options", self.model_options), ("fit_options", self.fit_options)):
            if not isinstance(options, Mapping):
                raise OptionError(name, type(options).__name__, "a mapping of argument names to values")
        if type(self.progress) is not bool:
            raise OptionError("progress", self.progress, (True, False))
        model_class(self.model)
        rows_of(self.nobs)
        if self.bounds is None:
            region_of(None, ())
        if isinstance(self.source, Data):
            self._plan(self.source.schema, self.source.neighbors, self.source.nobs)

    @property
    def _text(self) -> str:
        """The question in words."""
        called = getattr(model_class(self.model) or self.model, "__name__", type(self.model).__name__)
        asked = self.formula if isinstance(self.formula, str) else ", ".join(self.formula)
        return f"sample_aggregate: {called} of {asked}" + (f", where {self.where}" if self.where else "")

    # What is fitted

    @cached_property
    def _prepared(self) -> dict[Schema, tuple[Any, Schema, tuple[str, ...], str, str, str | None]]:
        return {}

    def _prepare(self, schema: Schema) -> tuple[Any, Schema, tuple[str, ...], str, str, str | None]:
        """Return estimator, columns, parameters, name of the model, response and link."""
        if schema not in self._prepared:
            kind = model_class(self.model)
            self._prepared[schema] = self._function(schema) if kind is None else self._statsmodels(kind, schema)
        return self._prepared[schema]

    def _statsmodels(self, kind: type, schema: Schema) -> tuple[Any, Schema, tuple[str, ...], str, str, str | None]:
        estimator = formula_estimator(
            kind, self.formula, schema, options=self.model_options, fit_options=self.fit_options
        )
        response = str(self.formula).split("~", 1)[0].strip()
        names, _ = probe_names(estimator, self.names)
        return estimator, estimator.schema, names, kind.__name__, response, _link(kind, self.model_options)

    def _function(self, schema: Schema) -> tuple[Any, Schema, tuple[str, ...], str, str, str | None]:
        listed = (self.formula,) if isinstance(self.formula, str) else self.formula
        columns = schema.select(listed)
        names = self.names if self.names is not None else region_names(self.bounds)
        called = getattr(self.model, "__name__", type(self.model).__name__)
        if not names:
            raise OptionError(
                "names", None, f"the names of what {called} returns, or bounds by name: its length must be known"
            )
        if self.model_options or self.fit_options:
            raise OptionError("model_options", "given", "none with a function of your own: use functools.partial")
        return self.model, columns, names, called, called, None

    def _plan(self, schema: Schema, neighbors: Neighbors, public: int | None) -> tuple[Blocks, AggregateQuestion]:
        """Return how rows become block estimates; and the question."""
        estimator, columns, names, called, response, link = self._prepare(schema)
        region = region_of(self.bounds, names)
        halves = self.bias_correction == "half_blocks"
        nobs = rows_of(self.nobs) if self.nobs is not None else None if public is None else float(public)
        blocks = number_of_blocks(self.blocks, nobs, len(names), neighbors, halves=halves)
        condition = None if self.where is None else compile_condition(self.where, schema)
        if condition is not None:
            columns = schema.select([name for name in schema if name in columns or name in condition.columns])
        dealt = Blocks(
            schema=columns,
            region=region,
            count=blocks,
            estimator=estimator,
            halves=halves,
            where=condition,
            workers=self.n_jobs,
            progress=self.progress,
        )
        question = AggregateQuestion(
            schema=columns,
            region=region,
            blocks=blocks,
            halves=halves,
            winsorized=self.aggregator == "winsorized",
            model=called,
            text=self._text,
            response=response,
            link=link,
            where=self.where,
            nobs=nobs,
        )
        return dealt, question

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "sample_aggregate"."""
        return "sample_aggregate"

    def units(self, context: Context) -> Blocks:
        """Return how rows are dealt into blocks, and what is fitted to them.

        Raises
        ------
        OptionError
            If the number of blocks has to be known and no number of rows is, or blocks would be too small; if the
            model cannot be sent to other processes; if the price is zero.
        """
        blocks, _ = self._plan(context.schema, context.neighbors, context.nobs)
        alone = context.public and self.n_jobs in (None, 1)
        if not (blocks.trusted or alone):
            check_picklable(blocks.estimator)
        return blocks

    def _shares(self, context: Context) -> BlockShares:
        return block_shares(self.units(context), context, winsorized=self.aggregator == "winsorized")

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Give histograms of scale and place a small share, and sums over the blocks the rest."""
        shares, size = self._shares(context), len(self.units(context).region.names)
        moments = size + size * (size + 1) // 2 + 2
        if not shares.places:
            return (Slot(Fraction(1), moments),)
        groups = len(self.units(context).region.places)
        return (
            Slot(shares.octaves, groups * OCTAVES),
            Slot(shares.places, size * BINS, adaptive=True),
            Slot(shares.moments, moments, adaptive=True),
        )

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their place, then sums of estimates winsorised there."""
        blocks, shares = self.units(context), self._shares(context)
        norm: Norm = "l1" if isinstance(context.privacy, PureDP) else "l2"
        if not shares.places:
            return _moments(blocks, whole_frame(blocks.region, norm), norm, shares)
        if place == 0:
            return Stage(Sum(OctaveCounts(blocks.schema, blocks.region)))
        scales = find_scales(blocks.region, released[0].array, float(np.sqrt(released[0].noise_variances[0])))
        if place == 1:
            return Stage(Sum(PlaceCounts(blocks.schema, blocks.region, bins_of(blocks.region, scales))))
        frame = find_frame(
            blocks.region,
            released[1].array,
            float(np.sqrt(released[1].noise_variances[0])),
            scales,
            blocks=blocks.count,
            norm=norm,
            stretch=self._stretch(blocks, shares, context, norm),
        )
        return _moments(blocks, frame, norm, shares)

    def _stretch(self, blocks: Blocks, shares: BlockShares, context: Context, norm: Norm) -> float:
        """Radius of the winsorising ball over what is needed, from the noise that sums will have."""
        amount = amounts(context.privacy, self.slots(context))[-1]
        noise = count_noise(_moments(blocks, whole_frame(blocks.region, norm), norm, shares), amount, context)
        return stretch(blocks, noise, pure=norm == "l1")

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        _, asked = self._plan(context.schema, context.neighbors, context.nobs)
        return replace(asked, winsorized=bool(self._shares(context).places)).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise it would bring, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the noise of the estimates: in units of the spread
            between blocks where these are winsorised, else in those of the parameters.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        context, last = measured.context, measured.stages[-1]
        blocks, shares = self.units(context), self._shares(context)
        norm: Norm = "l1" if isinstance(context.privacy, PureDP) else "l2"
        noise = float(np.sqrt(last.law.variances[0])) * last.steps[0] / blocks.count
        lines = [f"question     {measured.text}, in {blocks.count:,} secret blocks", measured.describe()]
        lines += [f"region       {blocks.region.describe()}"]
        if shares.places:
            radius = self._stretch(blocks, shares, context, norm) * limit(blocks.count, blocks.size, norm)
            lines.append(
                f"privacy noise of an estimate: {_times(noise * radius * np.sqrt(blocks.count))} times its sampling "
                "error, by how well the spread between blocks can be told"
            )
        else:
            half = whole_frame(blocks.region, norm).half
            listed = zip(blocks.region.names, (half * noise).tolist(), strict=True)
            if self.aggregator == "winsorized":
                lines.append("this price does not suffice to locate the block estimates: the region alone bounds them")
            lines.append(f"standard error from privacy noise: {', '.join(f'{n} {e:.4g}' for n, e in listed)}")
        return "\n".join(lines)

    def infer(self, release: Release | None = None) -> AggregateResults:
        """Infer from a release of this question: free, and without any row."""
        found: AggregateResults = infer_aggregate(
            self._asked(release, "sample_aggregate", text=self._text), inference=self.inference
        )
        return found


def _times(ratio: float) -> str:
    return f"{ratio:.2g} to {1.5 * ratio:.2g}"


def _link(kind: type, options: Mapping[str, Any]) -> str | None:
    if kind.__name__ != "GLM":
        return _LINKS.get(kind.__name__)
    link = type(getattr(options.get("family"), "link", None)).__name__.lower()
    known = {"identity": "identity", "logit": "logit", "probit": "probit", "log": "log", "nonetype": "identity"}
    return known.get(link)


def _moments(blocks: Blocks, frame: Frame, norm: Norm, shares: BlockShares) -> Stage:
    rows = BlockMoments(blocks.schema, blocks.region, tuple(frame.center.tolist()), tuple(frame.half.tolist()), norm)
    return Stage(Sum(rows, shares=shares.parts), settings=frame.to_dict())


@suggests
def sample_aggregate(
    formula: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    model: Any,
    blocks: int | str = "auto",
    bounds: Ball | tuple[Any, Any] | Mapping[Any, Any] | None = None,
    aggregator: str = "winsorized",
    bias_correction: str = "half_blocks",
    names: Sequence[str] | None = None,
    model_options: Mapping[str, Any] | None = None,
    fit_options: Mapping[str, Any] | None = None,
    where: str | None = None,
    nobs: Any = None,
    inference: str = "auto",
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
        (replace_one) or given as ``nobs``.
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
    return SampleAggregate(
        source=data,
        formula=formula if isinstance(formula, str) else _texts("formula", formula),
        model=model,
        blocks=blocks,
        bounds=bounds,
        aggregator=aggregator,
        bias_correction=bias_correction,
        names=None if names is None else _texts("names", names),
        model_options=model_options or {},
        fit_options=fit_options or {},
        where=where,
        nobs=nobs,
        inference=inference,
        n_jobs=n_jobs,
        progress=progress,
    )


def _texts(option: str, given: object) -> tuple[str, ...]:
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if not listed or not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise OptionError(option, given, "a list of distinct texts")
    return listed
