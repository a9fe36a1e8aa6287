"""Public rows, and the draws of a simulation: the same procedures with seeded noise, which protects nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.kernel.data import Rows
from dpinfer.kernel.draws import Draws, seeded_bytes
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.run import run
from dpinfer.privacy.units import NEIGHBORS, Neighbors
from dpinfer.schema.cells import Coded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.draws import Bytes
    from dpinfer.privacy.accounting import ChoiceLaw
    from dpinfer.privacy.units import Privacy
    from dpinfer.release import Release
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.schema import Schema

__all__ = ["PublicData", "SimulatedDraws", "plain_cells", "simulated_choice", "simulated_noise"]


class PublicData(Rows):
    """Rows that need no protection: the same procedures, with seeded noise, for simulation and tests.

    Parameters
    ----------
    source : DataFrame, path, query or engine
        As in `PrivateData`.
    schema : Schema
    rng : numpy.random.Generator
        Source of the simulated noise.
    neighbors : {"add_remove", "replace_one"}
        The relation that is simulated.
    id, max_rows : optional
        As in `PrivateData`.

    Raises
    ------
    UnknownColumnError, DataError, OptionError
        As `PrivateData`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)  # no ledger: nothing is protected
    >>> results = dpi.mean("age", data).fit(dpi.ZCDP(0.1))
    >>> results.release.public
    True
    """

    __slots__ = ("_neighbors", "_rng")

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        rng: np.random.Generator,
        neighbors: Neighbors = "add_remove",
        id: str | None = None,
        max_rows: int | None = None,
    ) -> None:
        if not isinstance(rng, np.random.Generator):
            raise OptionError("rng", rng, "a numpy Generator such as numpy.random.default_rng(1)")
        if neighbors not in NEIGHBORS:
            raise OptionError("neighbors", neighbors, NEIGHBORS)
        super().__init__(source, schema, id, max_rows)
        self._neighbors: Neighbors = neighbors
        self._rng = rng

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("PublicData is not subclassed: what it simulates cannot be overridden")

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation that is simulated."""
        return self._neighbors

    @property
    def rng(self) -> np.random.Generator:
        """Source of the simulated noise."""
        return self._rng

    @property
    def public(self) -> bool:
        """These rows need no protection."""
        return True

    def frame(self) -> pd.DataFrame:
        """Return the rows, with the column that tells people apart where they are the unit: they need no protection."""
        people = self.schema.people
        names = (*self.schema, *(() if people is None else (people.id,)))
        with self._source.opened() as rows:
            parts = [batch.read() for batch in rows.batches(names, CHUNK_ROWS)]
        if not parts:
            return pd.DataFrame({name: np.zeros(0) for name in names})
        return pd.DataFrame({name: _together([plain_cells(cells[name]) for cells in parts]) for name in names})

    def run(
        self,
        procedure: Any,
        privacy: Privacy,
        *,
        charge_id: str | None = None,  # noqa: ARG002
        seen: int | None = None,  # noqa: ARG002
    ) -> Release:
        """Price a procedure and measure with simulated noise, without a charge; see `dpinfer.kernel.run.run`."""
        draws = SimulatedDraws(self._rng)
        return self._noted(
            run(procedure, self.context(privacy), source=self._open, ready=self._ready, draws=draws, charge=None)
        )

    def __repr__(self) -> str:
        unit = "" if self.schema.people is None else f"; unit: {self.schema.unit}"
        return f"PublicData(columns: {', '.join(self.schema)}; neighbours: {self.neighbors}{unit}; protects nobody)"


class SimulatedDraws(Draws):
    """Seeded draws, which protect nobody.

    Parameters
    ----------
    rng : numpy.random.Generator
    """

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise with numpy."""
        return simulated_noise(law, self._rng)

    def place(self, scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
        """Draw the place of the largest noisy score with numpy."""
        return simulated_choice(scores, law, scale, self._rng)

    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw labels with numpy."""
        return self._rng.integers(0, labels, size)

    def bytes(self) -> Bytes:
        """Return seeded bytes, placed by the number of the first unit."""
        return seeded_bytes(int(self._rng.integers(2**63)))


def plain_cells(cells: Any) -> NDArray[Any]:
    """Return cells of any storage as an array; coded ones as objects, None where one is missing."""
    if not isinstance(cells, Coded):
        return np.asarray(cells)
    listed, codes = np.array([*cells.values, None], dtype=object), np.asarray(cells.codes)  # noqa: PD011
    return np.asarray(listed[np.where((codes >= 0) & (codes < len(listed) - 1), codes, len(listed) - 1)])


def _together(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of one column; as objects where their types differ, so that no cell is changed."""
    if len({part.dtype for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def simulated_noise(law: NoiseLaw, rng: np.random.Generator) -> list[int]:
    """Draw noise for simulation with numpy; it protects nobody."""
    return [int(value) for value in law.rvs(1, rng)[0]]


def simulated_choice(scores: Sequence[int], law: ChoiceLaw, scale: float, rng: np.random.Generator) -> int:
    """Draw the same for simulation with numpy; it protects nobody."""
    top = max(scores)
    gaps = np.array([float(score - top) for score in scores])
    noise = rng.gumbel(size=gaps.size) if law == "gumbel" else rng.exponential(size=gaps.size)
    return int(np.argmax(gaps / scale + noise))
