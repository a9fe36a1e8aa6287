"""Who draws for confidential rows: the operating system; and seeded bytes, for public weights."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import LedgerError
from dpinfer.kernel.samplers import private_noise
from dpinfer.kernel.selection import private_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpinfer.privacy.accounting import ChoiceLaw
    from dpinfer.release.laws import NoiseLaw

    Bytes = Callable[[int, int], bytes]

__all__ = ["Draws", "PrivateDraws", "seeded_bytes"]


class Draws(ABC):
    """Every random choice of a run."""

    private: bool
    """Whether the rows are confidential."""

    @abstractmethod
    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise (m,)."""

    @abstractmethod
    def place(self, scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
        """Draw the place of the largest noisy score."""

    @abstractmethod
    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw a label from 0 to ``labels - 1`` for each of ``size`` units."""

    @abstractmethod
    def bytes(self) -> Bytes:
        """Return what draws the bytes behind random weights: a function of the first unit and of how many bytes."""


class PrivateDraws(Draws):
    """Draws for confidential rows of one run. No seed, no buffer that a fork could duplicate, nothing kept.

    A copy of the process that was made after the charge has paid for nothing: it draws nothing.
    """

    private = True

    def __init__(self) -> None:
        self._process = os.getpid()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError("this process was forked after the charge, which pays for one release only")

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise exactly; see `private_noise`."""
        self._check()
        return private_noise(law)

    def place(self, scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
        """Draw the place of the largest noisy score exactly; see `private_choice`."""
        self._check()
        return private_choice(scores, law, scale)

    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw labels from the operating system's generator, alike in probability to within 2^-40."""
        self._check()
        drawn = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
        return (drawn % np.uint64(labels)).astype(np.intp)

    def bytes(self) -> Bytes:
        """Return the operating system's generator, which hands out no byte twice whatever forks or restores."""
        self._check()
        return lambda _, size: os.urandom(size)


def seeded_bytes(seed: int) -> Bytes:
    """Return bytes that anybody can draw again: those of public weights, and of simulations."""
    return lambda start, size: np.random.Generator(np.random.Philox(key=[seed, start])).bytes(size)
