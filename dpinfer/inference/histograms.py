"""The noisy histograms that a density is read from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.density import DensityEstimates
from dpinfer.numerics.bin_choice import Ladder

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["BinCounts", "Histograms"]


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Noisy counts in bins.

    Attributes
    ----------
    edges : ndarray (k + 1,)
    counts : ndarray (k,)
    noise : float
        Noise variance of a count.
    """

    edges: Array
    counts: Array
    noise: float

    def bias(self, merged: int, nobs: float) -> tuple[float, float]:
        """Squared bias of a histogram of bins that hold so many of these: what it loses within its bins.

        Parameters
        ----------
        merged : int
        nobs : float
            Number of rows.

        Returns
        -------
        bias, error : float
            Integrated squared distance between the density's means over these bins and over the coarser ones, without
            bias of its own (so that it may be negative); and its standard error.
        """
        if merged == 1:
            return 0.0, 0.0
        length = float(self.edges[-1] - self.edges[0])
        share = (np.diff(self.edges) / length).tolist()
        energy, variance = Ladder(share, (merged, 1)).energies(self.counts, max(nobs, 1.0), self.noise)
        return float(energy[1] - energy[0]) / length, float(np.sqrt(variance[0])) / length


@dataclass(frozen=True, eq=False)
class Histograms:
    """What a release of a density holds.

    Attributes
    ----------
    column : str
    whole : bool
        Whether the column is an Integer.
    where : str or None
        Condition on the rows.
    rows_per_unit : int
        Rows that one unit of protection may have.
    measured : BinCounts
        The counts that the density is made of.
    laplace : bool
        Whether the noise is Laplace.
    nobs : int or None
        The number of rows in all bins where it is public.
    merged : int
        Measured bins in one bin of the density.
    fine : BinCounts or None
        The first stage, where the bins were chosen privately.
    finer : int
        Bins of the first stage in one measured bin.
    """

    column: str
    whole: bool
    where: str | None
    rows_per_unit: int
    measured: BinCounts
    laplace: bool
    nobs: int | None
    merged: int = 1
    fine: BinCounts | None = None
    finer: int = 1

    @cached_property
    def edges(self) -> Array:
        """Edges of the bins (k + 1,)."""
        return np.append(self.measured.edges[: -1 : self.merged], self.measured.edges[-1])

    @property
    def widths(self) -> Array:
        """Width of each bin (k,), in the unit of the column; of an Integer how many whole numbers it holds."""
        return np.diff(self.edges)

    def estimates(self, target: str) -> DensityEstimates:
        """Return the noisy counts with what inference needs."""
        starts = np.arange(0, len(self.measured.counts), self.merged)
        return DensityEstimates(
            counts=np.add.reduceat(self.measured.counts, starts)[None],
            widths=self.widths,
            noise=self.measured.noise,
            laplace=self.laplace,
            merged=np.diff(np.append(starts, len(self.measured.counts))),
            nobs=self.nobs,
            population=target == "population",
            alike=self.rows_per_unit,
        )

    def bias(self, nobs: float) -> tuple[float, float] | None:
        """Squared bias of the density and its standard error, down to the bins of the first stage; None without one."""
        if self.fine is None:
            return None
        coarse, fine = self.measured.bias(self.merged, nobs), self.fine.bias(self.finer, nobs)
        return coarse[0] + fine[0], float(np.hypot(coarse[1], fine[1]))
