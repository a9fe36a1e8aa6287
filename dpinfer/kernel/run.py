"""Running a procedure: price, rehearse, charge, then sum and draw stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from dpinfer.errors import MeasurementFailedError, OptionError, SourceFailedError, type_of
from dpinfer.kernel.blocks import block_run
from dpinfer.kernel.plan import Plan, planned
from dpinfer.kernel.quantiles import chosen_points
from dpinfer.kernel.rows.blocks import BlockSum, BlockValues
from dpinfer.kernel.sampling import Draws, check_scales, room
from dpinfer.kernel.sources.base import Source, no_warnings
from dpinfer.kernel.stage import Above, Context, Largest, Place, Resampled
from dpinfer.kernel.sums import exact_sums, replicate_sums
from dpinfer.privacy.accounting import ChoiceLaw
from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED, NoiseLaw, StageRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from dpinfer.kernel.price import PricedStage
    from dpinfer.release import Release


def run(
    procedure: Any,
    context: Context,
    *,
    source: Callable[[], AbstractContextManager[Source]],
    draws: Draws,
    charge: Callable[[Plan], str] | None,
    ready: Callable[[Plan], None] | None = None,
    plans: dict[tuple[str, Context], Plan] | None = None,
    dataset: str | None = None,
    version: str | None = None,
) -> Release:
    """Run a procedure on rows.

    ``source`` opens the rows, after the charge, and ``ready`` refuses before it what they do not serve. ``charge``
    charges the ledger and returns the charge's id; it is None where nobody is protected. ``plans`` holds those
    of the same declarations, which serve a question again.

    Everything that can fail for a public reason fails before the charge: each stage is priced, and those of
    confidential rows are rehearsed on public ones. The whole price is on disk before any row is read, and a crash never
    gives it back. `BudgetExceededError` means that nothing was charged or drawn. Whatever fails after the charge is a
    `MeasurementFailedError`, which says nothing of rows and carries what was released before.
    """
    if isinstance(procedure, type) or not all(
        callable(getattr(procedure, name, None)) for name in ("resolve", "stage", "to_release")
    ):
        raise OptionError(
            "procedure", type_of(procedure), "a question, such as dpi.mean(...) or a Procedure of your own"
        )
    procedure = procedure.resolve(context)
    measured = planned(procedure, context, rehearse=draws.private, plans=plans)
    for law in sorted((stage.law for stage in measured.stages), key=room):  # the strictest says what is served
        check_scales(law, context.privacy)
        if draws.private and law.family in get_args(ChoiceLaw):
            draws.place((0, 0), cast("ChoiceLaw", law.family), law.scales[0])  # of equal scores: it loads what draws
    stages: list[StageRelease] = []

    def release(*charge_ids: str) -> Release:
        written: Release = procedure.to_release(
            kind=measured.kind,
            question=measured.question,
            stages=tuple(stages),
            cost=measured.cost,
            neighbors=context.neighbors,
            nobs=context.nobs,
            charge_ids=charge_ids,
            public=context.public,
            dataset=dataset,
            **({} if version is None else {"dataset_version": version}),
        )
        return written

    release()  # what is asked can be stored, or fails here
    if ready is not None:
        ready(measured)
    charge_ids = () if charge is None else (charge(measured),)
    ended: type[BaseException] | None = None
    reason: str | None = None
    try:
        with source() as rows:
            _measure(procedure, measured, rows, draws, stages)
    except BaseException as error:  # whose text, cause and traceback may tell of a row
        if not draws.private:
            raise
        ended, reason = type(error), error.reason if isinstance(error, SourceFailedError) else None
    if ended is KeyboardInterrupt:  # the user's own; without the error that it may have met
        raise KeyboardInterrupt
    if ended is not None:
        raise MeasurementFailedError(release(*charge_ids), reason)
    return release(*charge_ids)


def _measure(procedure: Any, measured: Plan, source: Source, draws: Draws, stages: list[StageRelease]) -> None:
    """Ask for each stage, sum, draw, and append what it releases.

    Rows are read quietly. What a procedure does to the process when it is asked for a stage is undone by then. Blocks
    are dealt and fitted once, before the first sum over them: their labels depend on nothing, and their number on
    nothing but what was released.
    """
    values: BlockValues | None = None
    for _ in measured.slots:
        released = tuple(stages)
        priced = measured.next_stage(procedure, released)
        check_scales(priced.law, measured.context.privacy)
        dealt = values is None and isinstance(priced.rows, BlockSum)
        blocks = measured.dealt(procedure, released) if dealt else None
        with no_warnings(draws.private):
            values = values if blocks is None else block_run(blocks, source, draws)
            stages.append(priced.released(_drawn(priced, source, values, draws)))


def _drawn(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:
    """Sum over the rows, or blocks, and draw: what a stage releases."""
    measure, rows = priced.stage.measure, priced.rows
    if isinstance(measure, Resampled):
        return noisy(priced, replicate_sums(rows, source, draws), draws)
    if isinstance(measure, Place):
        return chosen_points(rows, measure.probabilities, priced.law.scales, source, draws)
    if isinstance(rows, BlockSum):
        assert values is not None
        return noisy(priced, rows.add(values)[0].tolist(), draws)  # type: ignore[arg-type]
    exact = exact_sums(rows, source)
    if isinstance(measure, Largest):
        return [draws.place(exact, measure.law, priced.law.scales[0])]
    return noisy_answers(priced, exact, draws) if isinstance(measure, Above) else noisy(priced, exact, draws)


def noisy(priced: PricedStage, exact: list[int], draws: Draws) -> list[int]:
    """Add noise to the exact sums of a stage, once: a new draw for each call."""
    return priced.noisy(exact, draws.noise(priced.law))


def noisy_answers(priced: PricedStage, exact: list[int], draws: Draws) -> list[int]:
    """Compare the exact sums of a stage with its thresholds; the noise of all is drawn, whichever are reached."""
    measure: Above = priced.stage.measure  # type: ignore[assignment]
    shared, *own = draws.noise(NoiseLaw("laplace", (priced.law.shared, *priced.law.scales)))
    return answered(exact, measure.thresholds, measure.answers, shared, own)


def answered(
    sums: Sequence[int], thresholds: Sequence[int], answers: int, shared: int, noise: Sequence[int]
) -> list[int]:
    """Say which noisy sums are at least their noisy thresholds, in turn, until so many are; all in whole numbers.

    ``shared`` is the noise of all thresholds, a single draw. It is not drawn anew after an answer.
    """
    found, left = [], answers
    for total, threshold, own in zip(sums, thresholds, noise, strict=True):
        above = total + own >= threshold + shared
        found.append(NOT_REACHED if left == 0 else ABOVE if above else BELOW)
        left -= found[-1] == ABOVE
    return found
