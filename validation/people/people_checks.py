"""Whether the short cuts of the study of people equal the library, and whether its hash chooses rows as at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import dpinfer as dpi
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.sampling import SimulatedDraws
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums, replicate_sums
from validation.common.outputs import Options
from validation.people.people_bootstrap import BOOTSTRAP, PRICE, inferred
from validation.people.people_designs import COLUMNS, DESIGNS, KEPT, MANY, Drawn, draw, products_by_person, sums_of
from validation.people.people_inference import QUESTIONS, ends_of, measured

PEOPLE, SETS = 300, 3


class Twice(SimulatedDraws):
    """Draws by which every person counts twice."""

    def bytes(self) -> Callable[[int, int], bytes]:
        """Return bytes whose bits are all 1."""
        return lambda _, size: b"\xff" * size


@dataclass(frozen=True)
class Agreement:
    """What was compared.

    Attributes
    ----------
    sums, intervals : int
        Numbers of releases whose sums, and intervals, were compared.
    equal : bool
        Whether all sums are the same whole numbers, and intervals the same but for rounding.
    chosen : float
        Difference of the mean of the rows that the hash keeps from that of the first rows, in standard errors.
    """

    sums: int
    intervals: int
    equal: bool
    chosen: float


def checks(arguments: Options) -> Agreement:
    """Compare sums and intervals with the library's on a few data sets; and rows kept by the hash with the first."""
    compared, inferred_too, equal = 0, 0, True
    for place, design in enumerate(DESIGNS):
        rng = np.random.default_rng([arguments.seed, 5, place])
        drawn = draw(design, rng, PEOPLE, SETS)
        for most in KEPT:
            for index in range(SETS):
                data = dpi.PublicData(drawn.frame(index, most), COLUMNS, rng=rng, id="person", max_rows=most)
                same = [_same(name, data, drawn, index, most) for name in QUESTIONS]
                compared += len(same) + 1
                inferred_too += len(same) + 1
                equal &= all(same) and _same_bootstrap(data, drawn, index, most)
    return Agreement(compared, inferred_too, bool(equal), _chosen(arguments))


def _same(name: str, data: dpi.PublicData, drawn: Drawn, index: int, most: int) -> bool:
    """Compare the sums and the intervals of one question."""
    measurement = measured(name, most)
    with data._open() as rows:
        library = exact_sums(measurement.rows, rows, threads=1)[: len(measurement.names)]
    mine = [int(one) for one in sums_of(measurement.rows, drawn, most)[index]]
    release = data.run(QUESTIONS[name], measurement.context.privacy)
    ends = np.asarray(QUESTIONS[name].infer(release).conf_int())
    found = ends_of(name, measurement, release.array[None], None)[0][0]
    return library == mine and np.allclose(found, ends[-len(found) :], rtol=1e-6, atol=1e-9)


def _same_bootstrap(data: dpi.PublicData, drawn: Drawn, index: int, most: int) -> bool:
    """Compare the sums of the bootstrap where every weight is 2, and the intervals of a release."""
    measurement = BOOTSTRAP.measurement(PRICE, schema=data.schema, neighbors="add_remove")
    with data._open() as rows:
        library = replicate_sums(measurement.rows, rows, Twice(data.rng), threads=1)
    products = products_by_person(measurement.rows, drawn, most)[:, index]
    mine = [2 * int(one) for one in products.sum(axis=1)] * BOOTSTRAP.replicates
    release = data.run(BOOTSTRAP, PRICE)
    ends = np.asarray(BOOTSTRAP.infer(release).conf_int())
    return library == mine and np.allclose(inferred(most, release.array).intervals(np.eye(2), 0.05), ends, rtol=1e-6)


def _chosen(arguments: Options) -> float:
    """Compare the spending in rows that the hash keeps with that in the first rows of the same people."""
    rng, most = np.random.default_rng([arguments.seed, 6]), KEPT[1]
    drawn = draw(DESIGNS[-1], rng, 10_000, 1, slots=MANY)
    frame = drawn.frame(0, MANY)
    rows = KeptSource(open_source(frame), COLUMNS.with_people("person", most)).places
    kept, spending = frame.iloc[rows], np.minimum(drawn.cells["spending"][0], 8.0)
    size = len(spending)
    first = (spending[:, :most] * drawn.counted(most)[0]).sum(axis=1)
    summed = np.bincount(kept["person"], np.minimum(kept["spending"], 8.0), minlength=size)
    away = summed - first
    return float(away.sum() / np.sqrt((away**2).sum()))
