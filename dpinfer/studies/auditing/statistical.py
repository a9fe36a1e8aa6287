"""The statistical part: draws against their laws, and lower bounds from repeated draws on two neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.quantiles import chosen_points, sorted_places
from dpinfer.kernel.run import noisy_answers
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Above, Largest, Place
from dpinfer.kernel.sums import exact_sums
from dpinfer.release.laws import ABOVE
from dpinfer.studies.auditing.bounds import Event, chosen_event, trade_off
from dpinfer.studies.auditing.choices import rank_bins, score_logs
from dpinfer.studies.auditing.laws import LawTest, choice_tests, law_tests, scales_of
from dpinfer.studies.auditing.replays import replayed, runs_for
from dpinfer.studies.auditing.thresholds import PREFIX, first_logs, last_logs
from dpinfer.studies.auditing.units import source_of

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.kernel.price import PricedStage
    from dpinfer.studies.auditing.exact import StageWorst
    from dpinfer.studies.auditing.setting import Setting
    from dpinfer.studies.auditing.stated import Stated

__all__ = ["Bounded", "Replays", "law_findings", "replay_all"]

_CHOICES = 1000
_LAW_RUNS = 20_000
_LEAST_LAW_RUNS = 2000


@dataclass(frozen=True, eq=False, slots=True)
class Bounded:
    """An event with what is stated about it."""

    name: str
    price: str
    stated: Stated
    event: Event


@dataclass(frozen=True, eq=False, slots=True)
class Replays:
    """What repeated draws of all stages at a price gave.

    ``bounded`` holds the event of all stages together first, then of each; ``whole`` whether all that was released are
    whole numbers.
    """

    bounded: tuple[Bounded, ...]
    curve: pd.DataFrame | None
    other: Event | None
    runs: int
    whole: bool


def replay_all(worst: list[StageWorst], setting: Setting, runs: int | None) -> Replays:
    """Draw every stage of noisy sums again and again on its worst pair, alone and all together.

    All together is what an adversary sees who chooses neighbours for each stage; the price is for that, too.
    """
    sums = [one for one in worst if one.stage.law.family in ("gaussian", "laplace", "tulap") and one.worst.exact]
    sums = [one for one in sums if any(one.worst.change)]
    if not sums:
        return Replays((), None, None, 0, True)
    count = min(runs_for(one.stage, one.worst, runs) for one in sums)
    found = [replayed(one.stage, one.worst, count, setting.base) for one in sums]
    first, second = (np.sum([getattr(one, side) for one in found], axis=0) for side in ("first", "second"))
    stated, price = setting.stated, str(setting.privacy)
    bounded = [Bounded("all draws", price, stated, chosen_event(first, second, stated.kind))]
    if len(sums) > 1:
        bounded += [
            Bounded(one.name, price, one.share, chosen_event(replay.first, replay.second, stated.kind))
            for one, replay in zip(sums, found, strict=True)
        ]
    curve = trade_off(first, second, stated.kind, stated.level)
    other = chosen_event(first, second, "mu" if stated.kind == "epsilon" else "epsilon")
    return Replays(tuple(bounded), curve, other, count, all(one.whole for one in found))


def law_findings(worst: list[StageWorst], setting: Setting, runs: int | None) -> list[LawTest]:
    """Test every sampler in use against its law, and choices against their exact probabilities."""
    count = _LAW_RUNS if runs is None else max(runs, _LEAST_LAW_RUNS)
    found = [test for law in scales_of([one.stage.law for one in worst]) for test in law_tests(law, count)]
    for one in worst:
        measure = one.stage.stage.measure
        if isinstance(measure, Largest):
            found.append(_largest_test(one.stage, one.name, setting, min(count, _CHOICES)))
        elif isinstance(measure, Above):
            found += _above_tests(one.stage, one.name, setting, min(count, _CHOICES))
        elif isinstance(measure, Place):
            found.append(_place_test(one.stage, one.name, setting, min(count, _CHOICES)))
    return found


def _largest_test(stage: PricedStage, name: str, setting: Setting, runs: int) -> LawTest:
    scores = exact_sums(stage.rows, source_of(setting.base, setting.schema), threads=1)
    law, scale = stage.law.family, stage.law.scales[0]
    chosen = [PrivateDraws().place(scores, law, scale) for _ in range(runs)]  # type: ignore[arg-type]
    return choice_tests(name, chosen, score_logs(np.array(scores, dtype=float), law, scale))


def _above_tests(stage: PricedStage, name: str, setting: Setting, runs: int) -> list[LawTest]:
    """Places of the first and of the last answer "above", among the first queries.

    Where the rows are far from the thresholds, sums a few noise scales around these are compared.
    """
    measure, law, own = stage.stage.measure, stage.law, stage.law.scales[0]
    thresholds = measure.thresholds  # type: ignore[union-attr]
    most = measure.answers  # type: ignore[union-attr]
    spread = [round(own * (place % 5 - 2)) for place in range(len(thresholds))]
    exact = exact_sums(stage.rows, source_of(setting.base, setting.schema), threads=1)
    draws, found = PrivateDraws(), []
    for what, sums in (
        ("", exact),
        (", near the thresholds", [a + b for a, b in zip(thresholds, spread, strict=True)]),
    ):
        margins = np.array([a - b for a, b in zip(sums, thresholds, strict=True)][:PREFIX], dtype=float)
        told = np.array([noisy_answers(stage, sums, draws)[:PREFIX] for _ in range(runs // 2)]) == ABOVE
        ended = np.cumsum(told, axis=1)
        first = np.where(told.any(axis=1), told.argmax(axis=1), told.shape[1])
        last = np.where(ended[:, -1] == most, (ended == most).argmax(axis=1), told.shape[1])
        found += [
            choice_tests(f"{name}{what}, first above", first.tolist(), first_logs(margins, law.shared, own)),
            choice_tests(f"{name}{what}, last above", last.tolist(), last_logs(margins, law.shared, own, most)),
        ]
    return found


def _place_test(stage: PricedStage, name: str, setting: Setting, runs: int) -> LawTest:
    """Chosen points of the first group at the first probability, in stretches between the values."""
    source = source_of(setting.base, setting.schema)
    measure = stage.stage.measure
    probability = measure.probabilities[0]  # type: ignore[union-attr]
    scale = stage.law.scales[0]
    places = sorted_places(stage.rows, source)[0].astype(np.int64)
    cuts, logs = rank_bins(places, stage.rows.points, probability, scale)
    draws = PrivateDraws()
    chosen = [
        chosen_points(stage.rows, measure.probabilities, stage.law.scales, source, draws)[0]  # type: ignore[union-attr]
        for _ in range(runs // 4)
    ]
    return choice_tests(name, [int(np.searchsorted(cuts, point, side="right")) - 1 for point in chosen], logs)
