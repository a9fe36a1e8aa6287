"""Random weights that a test gives: bytes in place of those that the kernel draws, and what they stand for."""

import numpy as np

from dpinfer.kernel.sampling import SimulatedDraws


class Given(SimulatedDraws):
    """Hands out bytes that are given."""

    def __init__(self, draw):
        self._draw = draw

    def bytes(self):
        return self._draw


def from_table(table):
    """Return what hands out the bytes that give every row the bits, or the numbers of 16 bits, of a table (B, n)."""

    def draw(start, size):
        if table.dtype == np.uint16:
            return table[:, start : start + size // (2 * len(table))].tobytes()
        return np.packbits(table[:, start : start + 8 * (size // len(table))], axis=1).tobytes()

    return Given(draw)
