"""Running a measurement: check, charge, sum, draw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from dpinfer.errors import OptionError
from dpinfer.kernel.blocks import block_run, noisy_values, secret_labels
from dpinfer.kernel.data import Data, PrivateData, PublicData, rows_of
from dpinfer.kernel.density import noisy_histograms
from dpinfer.kernel.quantiles import chosen_points, private_draw, simulated_draw
from dpinfer.kernel.replicates import random_bytes, replicate_sums
from dpinfer.kernel.samplers import check_scales, private_noise, simulated_noise
from dpinfer.kernel.selection import private_choice, score_sums, simulated_choice
from dpinfer.kernel.sums import cell_sums, exact_sums
from dpinfer.privacy.store import ROWS
from dpinfer.release import Measurement, Release
from dpinfer.kernel.rows.blocks import BlockRows
from dpinfer.kernel.rows.density import DensityRows
from dpinfer.kernel.rows.resampled import ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import QuantileRows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.privacy.selection import ChoiceLaw

__all__ = ["run"]


def run(measurement: Measurement, data: Data, *, threads: int | None = None) -> Release:
    """Run a measurement on rows.

    Parameters
    ----------
    measurement : Measurement
    data : PrivateData or PublicData
    threads : int, optional
        Worker threads; the sums do not depend on it.

    Returns
    -------
    Release

    Raises
    ------
    BudgetExceededError
        If the ledger refuses the charge; nothing is then drawn.
    OptionError
        If the measurement was made for other neighbours, or another unit of protection, than the data have.
    PrivacyUnitError
        If the noise is too large to be drawn exactly.

    Notes
    -----
    Everything that can fail for a public reason fails before the charge. The charge is on disk before any
    row is read: a crash after it never gives budget back.
    """
    if measurement.neighbors != data.neighbors:
        raise OptionError("neighbors", measurement.neighbors, f"{data.neighbors!r}, as the data are protected")
    if measurement.people != data.schema.people:
        raise OptionError("schema", measurement.rows.schema.unit, f"that of the data, whose unit is {data.schema.unit}")
    if threads is not None and threads < 1:
        raise OptionError("threads", threads, "a positive whole number, or None")
    check_scales(measurement.law, measurement.cost.price)
    charge_id = None
    if isinstance(data, PrivateData):
        charge_id = data.ledger.charge(measurement.cost, _description(measurement), unit=_unit(measurement))
    values, measurement = _noisy_sums(measurement, data, threads)
    return Release(
        kind=measurement.kind,
        question=measurement.question,
        values=values,
        steps=measurement.steps,
        names=measurement.names,
        law=measurement.law,
        cost=measurement.cost,
        neighbors=measurement.neighbors,
        nobs=data.nobs,
        charge_ids=() if charge_id is None else (charge_id,),
        public=isinstance(data, PublicData),
        dataset=data.ledger.dataset if isinstance(data, PrivateData) else None,
    )


def _noisy_sums(measurement: Measurement, data: Data, threads: int | None) -> tuple[tuple[int, ...], Measurement]:
    """Sum over the rows and add the noise; an adaptive measurement comes back as noisy sums settled it on the way."""
    rows, source = measurement.rows, rows_of(data)
    if isinstance(rows, ScoreSum):
        return (_choice(measurement, data, score_sums(rows, source)),), measurement
    if isinstance(rows, BlockRows):
        blocks = block_run(rows, source, _labels(data), private=not isinstance(data, PublicData))
        values, settled = noisy_values(measurement, blocks, _noise(measurement, data))
        return values, replace(measurement, question={**measurement.question, **settled})
    if isinstance(rows, DensityRows):
        cells = cell_sums(rows.cells, source, threads=threads)
        return noisy_histograms(measurement, cells, _noise(measurement, data), data.nobs)
    if isinstance(rows, QuantileRows):
        draw = simulated_draw(data.rng) if isinstance(data, PublicData) else private_draw
        chosen = {"selected": chosen_points(rows, source, draw)}
        measurement, rows = replace(measurement, question={**measurement.question, **chosen}), rows.tree
    if isinstance(rows, ReplicateSum):
        sums = replicate_sums(rows, source, random_bytes(rows, data), threads=threads)
    else:
        sums = exact_sums(rows, source, threads=threads)[: len(measurement.names)]
    noise = _noise(measurement, data)
    return tuple(total * measurement.multiplier + drawn for total, drawn in zip(sums, noise, strict=True)), measurement


def _choice(measurement: Measurement, data: Data, scores: list[int]) -> int:
    law, scale = cast("ChoiceLaw", measurement.law.family), measurement.law.scales[0]
    if isinstance(data, PublicData):
        return simulated_choice(scores, law, scale, data.rng)
    return private_choice(scores, law, scale)


def _noise(measurement: Measurement, data: Data) -> list[int]:
    if isinstance(data, PublicData):
        return simulated_noise(measurement.law, data.rng)
    return private_noise(measurement.law)


def _labels(data: Data) -> Callable[[int, int], NDArray[np.intp]]:
    """Return what draws the blocks of rows: secretly, or where nobody is protected from the seeded generator."""
    if isinstance(data, PublicData):
        return lambda size, labels: data.rng.integers(0, labels, size)
    return secret_labels


def _unit(measurement: Measurement) -> str:
    """Whose rows the measurement protects together, as the ledger keeps it."""
    return ROWS if measurement.people is None else f"people told apart by {measurement.people.id!r}"


def _description(measurement: Measurement) -> str:
    text = str(measurement.question["text"])
    said = text if text.startswith(measurement.kind) else f"{measurement.kind}: {text}"
    return said if measurement.people is None else f"{said} (unit: {measurement.people.unit})"
