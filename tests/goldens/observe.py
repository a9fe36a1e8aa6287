"""All that the goldens know of the package's internals: what is planned, what is summed, what is released.

A rebuild of the kernel rewrites this file alone; goldens.json stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from dpinfer.kernel import run
from dpinfer.kernel.stage import Above, Largest
from dpinfer.kernel.sums import exact_sums as sums_of

if TYPE_CHECKING:
    import dpinfer as dpi
    from tests.goldens.cases import Case


@dataclass(frozen=True)
class Plan:
    """What would be done to the rows, before any is read.

    Scales are in steps; those of places chosen by the exponential mechanism, as quantiles are, are in ranks.
    """

    kind: str
    names: tuple[str, ...]
    family: str
    scales: tuple[float, ...]
    draws: int
    steps: tuple[float, ...]
    multiplier: int
    cost: dict[str, Any]
    choices: tuple[float, ...]


@dataclass(frozen=True)
class Released:
    """What came out: noisy integers with their names and noise, public numbers found on the way.

    Exact integer sums are those before the multiplier, stage by stage. A choice has the scores of its candidates,
    thresholds have what is compared with them; a density with chosen bins has the counts of its finest cells. The sums
    of blocks and of replicates are those of the labels and weights that the seed gives.
    """

    release: dpi.Release
    values: tuple[int, ...]
    names: tuple[str, ...]
    scales: tuple[float, ...]
    nobs: int | None
    settings: dict[str, Any]
    sums: list[list[int]]


def plan(case: Case) -> Plan:
    """Plan a case."""
    measurement = case.procedure(case.data()).measurement(case.privacy)
    return Plan(
        kind=measurement.kind,
        names=measurement.names,
        family=measurement.law.family,
        scales=measurement.law.scales,
        draws=measurement.law.draws,
        steps=measurement.steps,
        multiplier=measurement.multiplier,
        cost=measurement.cost.to_dict(),
        choices=tuple(
            scale * stage.steps[0]
            for stage in measurement.stages
            if stage.law.family == "gumbel" and len(measurement.stages) > 1
            for scale in stage.law.scales
        ),
    )


def released(case: Case) -> Released:
    """Release a case, with the noise that its seed gives."""
    exact: list[list[int]] = []
    noisy = run.noisy

    def noted(priced: Any, totals: list[int], draws: Any) -> list[int]:
        exact.append(list(totals))
        return noisy(priced, totals, draws)

    data = case.data()
    procedure = case.procedure(data)
    measurement = procedure.measurement(case.privacy)
    with mock.patch.object(run, "noisy", noted):
        release = procedure.measure(case.privacy)
    if isinstance(measurement.stages[-1].stage.measure, Largest | Above):
        with data._open() as rows:
            exact = [sums_of(measurement.rows, rows)]
    settings = {str(place): dict(stage.settings) for place, stage in enumerate(release.stages) if stage.settings}
    settings |= {"selected": [list(stage.values) for stage in release.choices]} if len(release.stages) > 1 else {}
    return Released(release, release.values, release.names, release.law.scales, release.nobs, settings, exact)


def infer(case: Case, release: dpi.Release) -> list[Any]:
    """Return the results of a case; of a Gram those of its formulas."""
    procedure = case.procedure(case.data())
    if case.ask.formulas:
        return [procedure.infer(release, formula=formula) for formula in case.ask.formulas]
    return [procedure.infer(release)]
