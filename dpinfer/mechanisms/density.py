"""Histograms whose bins are chosen from noisy counts: rows are read once, and each stage releases what it merges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.release import Measurement
    from dpinfer.schema.density_rows import DensityRows

    Array = NDArray[np.float64]

__all__ = ["Settled", "noisy_histograms", "noisy_stages"]


@dataclass(frozen=True, slots=True)
class Settled:
    """What the stages released.

    Attributes
    ----------
    counts : tuple of int, length m
        Noisy counts of the stages in turn.
    places : tuple of int, length m
        Which of the noise variables that there may be each carries.
    fine, width : int
        Cells in a bin of the first and of the second stage.
    """

    counts: tuple[int, ...]
    places: tuple[int, ...]
    fine: int
    width: int


def noisy_stages(measurement: Measurement, cells: Sequence[int], noise: Sequence[int], nobs: int | None) -> Settled:
    """Release the stages in turn: the number of rows, counts in fine bins, counts in the bins chosen from these.

    Parameters
    ----------
    measurement : Measurement
        Its row function is a `DensityRows`.
    cells : sequence of int
        Exact counts in the cells of the grid.
    noise : sequence of int
        Of every sum that there may be. What is counted later depends on what is released earlier, the noise does not.
    nobs : int or None
        The number of rows where it is public.

    Returns
    -------
    Settled
        From noisy counts alone.
    """
    rows: DensityRows = measurement.rows  # type: ignore[assignment]
    step, parts = measurement.steps[0], rows.parts
    scales, family = measurement.law.scales, measurement.law.family
    values: list[int] = []
    places: list[int] = []

    def release(exact: list[int], stage: str) -> Array:
        """Release counts; return them in rows."""
        mine = range(parts[stage].start, parts[stage].start + len(exact))
        noisy = [count * measurement.multiplier + noise[place] for count, place in zip(exact, mine, strict=True)]
        values.extend(noisy)
        places.extend(mine)
        return np.array(noisy, dtype=np.float64) * step

    stages = [name for name, part in parts.items() if part.stop > part.start]
    variances = NoiseLaw(family, tuple(scales[parts[name].start] for name in stages)).variances * step**2
    spread = dict(zip(stages, variances.tolist(), strict=True))
    size = float(release([sum(cells)], "rows")[0]) if rows.counted else float(nobs or 0)
    fine = rows.fine_width(size, spread["fine"] ** 0.5)
    counts = release(rows.merge(cells, fine), "fine")
    if rows.counted:
        weight = spread["rows"] / (spread["rows"] + spread["fine"] * len(counts))
        size += weight * (float(counts.sum()) - size)
    width = rows.bin_width(counts, fine, nobs=size, fine_noise=spread["fine"], bin_noise=spread["bins"])
    release(rows.merge(cells, width), "bins")
    return Settled(tuple(values), tuple(places), fine, width)


def noisy_histograms(
    measurement: Measurement, cells: Sequence[int], noise: Sequence[int], nobs: int | None
) -> tuple[tuple[int, ...], Measurement]:
    """Release the stages; parameters as `noisy_stages`.

    Returns
    -------
    values : tuple of int
        Noisy counts.
    settled : Measurement
        The same measurement with names, steps and noise of these counts, and what was chosen.
    """
    rows: DensityRows = measurement.rows  # type: ignore[assignment]
    found = noisy_stages(measurement, cells, noise, nobs)
    scales, steps = measurement.law.scales, measurement.steps
    return found.counts, replace(
        measurement,
        question={**measurement.question, "settled": {"fine": found.fine, "width": found.width}},
        names=rows.names(found.fine, found.width),
        steps=tuple(steps[place] for place in found.places),
        law=NoiseLaw(measurement.law.family, tuple(scales[place] for place in found.places)),
    )
