"""Running a procedure: price, rehearse, charge, then sum and draw stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.errors import MeasurementFailedError, OptionError, SourceFailedError, type_of
from dpinfer.kernel.blocks import block_run
from dpinfer.kernel.plan import coordinates, dealt, handed, planned, price_next
from dpinfer.kernel.price import amounts
from dpinfer.kernel.quantiles import chosen_points
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.sampling import check_scales, room
from dpinfer.kernel.sources.base import Table, quiet
from dpinfer.kernel.stage import Above, Largest, Place, Resampled, Sum
from dpinfer.kernel.sums import exact_sums, replicate_sums
from dpinfer.privacy.cost import Cost
from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from dpinfer.kernel.plan import Plan
    from dpinfer.kernel.price import PricedStage
    from dpinfer.kernel.rows.blocks import BlockValues
    from dpinfer.kernel.sampling import Draws
    from dpinfer.kernel.sources.base import Source
    from dpinfer.kernel.stage import Context
    from dpinfer.release import Release
    from dpinfer.release.stage import StageRelease


__all__ = ["answered", "noisy", "noisy_answers", "run"]


def run(
    procedure: Any,
    context: Context,
    *,
    source: Callable[[], AbstractContextManager[Source]],
    draws: Draws,
    charge: Callable[[Plan], str] | None,
    ready: Callable[[Plan], None] | None = None,
    dataset: str | None = None,
    version: str | None = None,
) -> Release:
    """Run a procedure on rows.

    ``source`` opens the rows, after the charge, and ``ready`` refuses before it what they do not serve. ``charge``
    charges the ledger and returns the charge's id; it is None where nobody is protected.

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
    procedure = procedure.resolve(handed(context))
    measured = planned(procedure, context, rehearse=draws.private)
    for law in sorted((stage.law for stage in measured.stages), key=room):  # the strictest says what is served
        check_scales(law, context.privacy)

    def release(stages: list[StageRelease], charge_ids: tuple[str, ...]) -> Release:
        written: Release = procedure.to_release(
            kind=measured.kind,
            question=measured.question,
            stages=tuple(stages),
            cost=Cost.from_dict(measured.cost.to_dict()),  # a copy: it is handed over before it is charged
            neighbors=context.neighbors,
            nobs=context.nobs,
            charge_ids=charge_ids,
            public=context.public,
            dataset=dataset,
            **({} if version is None else {"dataset_version": version}),
        )
        return written

    release([], ())  # what is asked can be stored, or fails here
    if ready is not None:
        ready(measured)
    charge_ids = () if charge is None else (charge(measured),)
    stages: list[StageRelease] = []
    if not draws.private:
        with source() as rows:
            _measure(procedure, context, measured, rows, draws, stages)
        return release(stages, charge_ids)
    ended: type[BaseException] | None = None
    reason: str | None = None
    try:
        with source() as rows:
            _measure(procedure, context, measured, rows, draws, stages)
    except SourceFailedError as error:
        ended, reason = type(error), error.reason
    except BaseException as error:  # whose text, cause and traceback may tell of a row
        ended = type(error)
    if ended is KeyboardInterrupt:  # the user's own; without the error that it may have met
        raise KeyboardInterrupt
    if ended is not None:
        raise MeasurementFailedError(release(stages, charge_ids), reason)
    return release(stages, charge_ids)


def _measure(
    procedure: Any, context: Context, measured: Plan, source: Source, draws: Draws, stages: list[StageRelease]
) -> None:
    """Ask for each stage, sum, draw, and append what it releases.

    Rows are read quietly. What a procedure does to the process when it is asked for a stage is undone by then. Blocks
    are dealt and fitted once, before the first sum over them: their labels depend on nothing, and their number on
    nothing but what was released.
    """
    values: BlockValues | None = None
    slots = measured.slots
    for place, (slot, amount) in enumerate(zip(slots, amounts(context.privacy, slots), strict=True)):
        if slot.adaptive:
            released, most = tuple(stages), coordinates(slots)
            priced = price_next(procedure, place, slot, amount, context, released, most, measured.blocks)
            check_scales(priced.law, context.privacy)
            reserved = measured.costs[place]
            if reserved.larger(priced.cost) != reserved:
                raise OptionError("stage", type_of(priced.rows), "a stage that costs no more than was charged for it")
        else:
            priced = measured.stages[place]
        if values is None and isinstance(priced.rows, BlockSum):
            blocks = dealt(procedure, measured.blocks, context, tuple(stages))
            with quiet(draws.private):
                values = block_run(blocks, source, draws)
        with quiet(draws.private):
            stages.append(_release(priced, source, values, draws))


def _release(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> StageRelease:
    noisy = _MEASURES[type(priced.stage.measure)](priced, source, values, draws)
    return priced.released(noisy)


def _sum(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:
    rows = priced.rows
    if isinstance(rows, BlockSum):
        if values is None:
            raise OptionError("units", None, "the blocks that are summed")
        return noisy(priced, rows.add(values)[0].tolist(), draws)  # type: ignore[arg-type]
    if draws.private or not isinstance(source, Table) or source.rows > CHUNK_ROWS:
        return noisy(priced, exact_sums(rows, source), draws)
    return noisy(priced, exact_sums(rows, source, threads=1), draws)  # public rows in one batch need no thread


def _resampled(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:  # noqa: ARG001
    return noisy(priced, replicate_sums(priced.rows, source, draws), draws)


def noisy(priced: PricedStage, exact: list[int], draws: Draws) -> list[int]:
    """Add noise to the exact sums of a stage, once: a new draw for each call."""
    noise = draws.noise(priced.law)
    return [total * priced.multiplier + drawn for total, drawn in zip(exact, noise, strict=True)]


def _largest(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:  # noqa: ARG001
    measure: Largest = priced.stage.measure  # type: ignore[assignment]
    return [draws.place(exact_sums(measure.rows, source), measure.law, priced.law.scales[0])]


def _above(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:  # noqa: ARG001
    return noisy_answers(priced, exact_sums(priced.rows, source), draws)


def noisy_answers(priced: PricedStage, exact: list[int], draws: Draws) -> list[int]:
    """Compare the exact sums of a stage with its thresholds; the noise of all is drawn, whichever are reached."""
    measure: Above = priced.stage.measure  # type: ignore[assignment]
    shared, *own = draws.noise(NoiseLaw("laplace", (priced.law.shared, *priced.law.scales)))
    return answered(exact, measure.thresholds, measure.answers, shared, own)


def _place(priced: PricedStage, source: Source, values: BlockValues | None, draws: Draws) -> list[int]:  # noqa: ARG001
    measure: Place = priced.stage.measure  # type: ignore[assignment]
    return chosen_points(measure.rows, measure.probabilities, priced.law.scales, source, draws)


_MEASURES: dict[type, Callable[[PricedStage, Source, BlockValues | None, Draws], list[int]]] = {
    Sum: _sum,
    Resampled: _resampled,
    Largest: _largest,
    Above: _above,
    Place: _place,
}


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
