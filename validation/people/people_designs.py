"""People with several dependent rows: how they are drawn, and what a measurement sums of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

import dpinfer as dpi
from dpinfer.kernel.rows.cells import CellSum, PersonSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.schema.cells import Coded

KEPT = (1, 3, 5)
"""The values of max_rows."""

MANY = 50
ROWS = {1: 0.30, 2: 0.24, 3: 0.20, 4: 0.14, 5: 0.09, MANY: 0.03}
"""Share of people with so many rows."""

_NUMBERS, _SHARES = np.array(list(ROWS)), np.cumsum(list(ROWS.values()))

PLACES = ("north", "south")
COLUMNS = dpi.Schema(
    spending=dpi.Real(0, 8),
    place=dpi.Category(list(PLACES)),
    x=dpi.Real(0, 1),
    score=dpi.Real(0, 1),
)
SLOPE = 0.5
SPREAD, BORDER = 0.8, 0.25
"""Standard deviation of the logarithm of spending; latent at which the place changes."""


@dataclass(frozen=True)
class Design:
    """How people's rows depend on each other, and on how many there are.

    Each row has three standard normal latents: of spending (lognormal, clamped at 8) and x (uniform), of the place, and
    of the error of ``score = x / 2 + error`` (uniform). Latents of two rows of a person have correlation ``alike``.
    Numbers of rows are those of `ROWS`; where they are related to the values, people who spend more have more.

    Attributes
    ----------
    name : str
    alike : float
    related : float
        Correlation of the person's part of the first latent with the one behind the number of rows.
    """

    name: str
    alike: float
    related: float = 0.0


DESIGNS = (
    Design("correlation 0", 0.0),
    Design("correlation .5", 0.5),
    Design("correlation 1", 1.0),
    Design("correlation .5, more rows where values are high", 0.5, 0.7),
)


@dataclass(frozen=True)
class Drawn:
    """People of several data sets with the first of their rows, as many as ever count.

    Attributes
    ----------
    numbers : ndarray of int (K, n)
        Rows of each person; 0 for those who are not there.
    cells : mapping of str to ndarray (K, n, slots)
        Cells of the columns, places as numbers.
    """

    numbers: np.ndarray
    cells: Mapping[str, np.ndarray]
    _encoded: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def counted(self, most: int) -> np.ndarray:
        """Which of the first rows of each person are there (K, n, most)."""
        return np.arange(most) < self.numbers[..., None]

    def raw(self, names: Sequence[str], most: int) -> dict[str, np.ndarray | Coded]:
        """Cells of the first rows of all people, as row functions read them (K n most,)."""
        found: dict[str, np.ndarray | Coded] = {name: self.cells[name][..., :most].ravel() for name in names}
        if "place" in found:
            found["place"] = Coded(np.asarray(found["place"]), list(PLACES))
        return found

    def encoded(self, rows: Any, most: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Cells of a table and features of the first rows, as row functions give them: (K, n, most), (d, K, n, most).

        Questions of the same features share them; of what is not there, they hold whatever was drawn.
        """
        slots = most if most == 1 else self.cells["x"].shape[-1]
        features, axes = rows.features, tuple(axis.name for axis in getattr(rows, "axes", ()))
        key = (slots, features.basis.names, axes, getattr(rows, "counted", None))
        if key not in self._encoded:
            shape, raw = (*self.numbers.shape, slots), self.raw(rows.columns, slots)
            if isinstance(rows, GramSum):
                self._encoded[key] = None, features.encode(raw)[0].reshape(-1, *shape)
            else:
                placed, found = CellSum.encode(rows, raw, self.numbers.size * slots)
                found = np.ones(placed.size) if found is None else found
                self._encoded[key] = placed.reshape(shape), found.reshape(-1, *shape)
        placed, found = self._encoded[key]
        return None if placed is None else placed[..., :most], found[..., :most]

    def frame(self, index: int, most: int) -> pd.DataFrame:
        """Rows of one data set that count, with ids, in an order that tells nothing of the people."""
        there = self.counted(most)[index]
        columns = {name: cells[index][..., :most][there] for name, cells in self.cells.items()}
        columns["place"] = np.array(PLACES)[columns["place"].astype(int)]
        columns["person"] = np.broadcast_to(np.arange(len(there))[:, None], there.shape)[there]
        return pd.DataFrame(columns).sample(frac=1.0, random_state=index, ignore_index=True)


def draw(design: Design, rng: np.random.Generator, n: int, sets: int, slots: int = max(KEPT)) -> Drawn:
    """Draw data sets with a Poisson number of people, n on average."""
    present = rng.poisson(n, sets)
    size = int(present.max())
    own, shared = rng.standard_normal((3, sets, size, slots)), rng.standard_normal((3, sets, size, 1))
    first, second, third = np.sqrt(design.alike) * shared + np.sqrt(1 - design.alike) * own
    rank = design.related * shared[0, ..., 0] + np.sqrt(1 - design.related**2) * rng.standard_normal((sets, size))
    numbers = _NUMBERS[np.searchsorted(_SHARES[:-1], ndtr(rank))]
    x = ndtr(first)
    cells = {
        "spending": np.exp(SPREAD * first),
        "place": second > BORDER,
        "x": x,
        "score": SLOPE * x + 0.5 * ndtr(third),
    }
    return Drawn(np.where(np.arange(size) < present[:, None], numbers, 0), cells)


def sums_of(rows: Any, drawn: Drawn, most: int) -> np.ndarray:
    """Sum what a measurement sums, of the first rows of each person (K, m): whole numbers, as the library's.

    Parameters
    ----------
    rows : PersonSum, CellSum or GramSum
    drawn : Drawn
    most : int
        Rows of each person that count.
    """
    there = drawn.counted(most)
    if isinstance(rows, GramSum):
        return products_by_person(rows, drawn, most).sum(axis=2).T
    placed, features = drawn.encoded(rows, most)
    cells = []
    for cell in range(rows.size):
        inside = (there & (placed == cell)).astype(np.float64)
        if isinstance(rows, PersonSum):
            linear = np.stack([np.einsum("knm,knm->kn", one, inside) for one in features])
            first, second = np.triu_indices(len(linear))
            products = np.trunc(linear[first] * linear[second] / rows.unit)
            cells.append(np.concatenate([linear, products]).sum(axis=2))
        else:
            cells.append(np.stack([np.einsum("knm,knm->k", one, inside) for one in features]))
    return np.concatenate(cells).T


def products_by_person(rows: Any, drawn: Drawn, most: int) -> np.ndarray:
    """Sum the products of features over the first rows of each person (d (d + 1) / 2, K, n): whole numbers."""
    there = drawn.counted(most)
    encoded = drawn.encoded(GramSum(rows.features), most)[1] * there
    first, second = np.triu_indices(len(encoded))
    return np.stack([np.einsum("knm,knm->kn", encoded[i], encoded[j]) for i, j in zip(first, second, strict=True)])


def slope_variance(drawn: Drawn, most: int) -> np.ndarray:
    """Sum over people what the variance of a slope needs (6,): of rows, x and x^2; and of u^2, u v and v^2.

    Of a person, v is the sum of errors and u that of x times them.
    """
    there = drawn.counted(most)
    x = drawn.cells["x"][..., :most]
    error = drawn.cells["score"][..., :most] - SLOPE * x - 0.25  # errors are uniform on [0, .5]
    u, v = (x * error * there).sum(axis=-1), (error * there).sum(axis=-1)
    plain = [there, x * there, x**2 * there, u * u, u * v, v * v]
    return np.array([float(one.sum()) for one in plain])
