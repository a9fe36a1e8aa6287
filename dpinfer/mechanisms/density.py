"""Histograms whose bins are chosen from noisy counts: rows are read once, and each stage releases what it merges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release import Measurement
    from dpinfer.schema.density_rows import DensityRows

__all__ = ["noisy_histograms"]


def noisy_histograms(
    measurement: Measurement, cells: Sequence[int], noise: Sequence[int], nobs: int | None
) -> tuple[tuple[int, ...], Measurement]:
    """Release the stages in turn: the number of rows, counts in fine bins, counts in the bins chosen from these.

    Parameters
    ----------
    measurement : Measurement
        Its row function is a `DensityRows`.
    cells : sequence of int
        Exact counts in the cells of the grid.
    noise : sequence of int, length m
        Of every sum that there may be. What is counted later depends on what is released earlier, the noise does not.
    nobs : int or None
        The number of rows where it is public.

    Returns
    -------
    values : tuple of int
        Noisy counts of the stages.
    settled : Measurement
        The same with names, steps and noise of these counts, and what was chosen, from noisy counts alone.
    """
    rows: DensityRows = measurement.rows  # type: ignore[assignment]
    step, variances, parts = measurement.steps[0], measurement.law.variances, rows.parts
    values: list[int] = []
    used: list[int] = []

    def release(exact: list[int], stage: str) -> tuple[np.ndarray, float]:
        """Release counts; return them in rows, and the variance of their noise."""
        places = range(parts[stage].start, parts[stage].start + len(exact))
        noisy = [count * measurement.multiplier + noise[place] for count, place in zip(exact, places, strict=True)]
        values.extend(noisy)
        used.extend(places)
        return np.array(noisy, dtype=np.float64) * step, float(variances[places.start]) * step**2

    fine_noise, bin_noise = (float(variances[parts[stage].start]) * step**2 for stage in ("fine", "bins"))
    if rows.counted:
        total, total_noise = release([sum(cells)], "rows")
        size = float(total[0])
    else:
        size, total_noise = float(nobs or 0), 0.0
    fine = rows.fine_width(size, fine_noise**0.5)
    counts, _ = release(rows.merge(cells, fine), "fine")
    if total_noise:
        weight = total_noise / (total_noise + fine_noise * len(counts))
        size += weight * (float(counts.sum()) - size)
    width = rows.bin_width(counts, fine, nobs=size, fine_noise=fine_noise, bin_noise=bin_noise)
    release(rows.merge(cells, width), "bins")
    return tuple(values), _settled(measurement, rows, used, fine, width)


def _settled(measurement: Measurement, rows: DensityRows, used: list[int], fine: int, width: int) -> Measurement:
    scales = measurement.law.scales
    return replace(
        measurement,
        question={**measurement.question, "settled": {"fine": fine, "width": width}},
        names=rows.names(fine, width),
        steps=tuple(measurement.steps[place] for place in used),
        law=NoiseLaw(measurement.law.family, tuple(scales[place] for place in used)),
    )
