"""People with several dependent rows: coverage and width by person, beside what independent rows would claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import dpinfer as dpi
from validation.common.cells import measured as measured_once
from validation.common.cells import parts_of
from validation.common.claims import RULES, Claim
from validation.common.outputs import Options, write_figure, write_table
from validation.people.people_bootstrap import slopes
from validation.people.people_checks import checks
from validation.people.people_designs import DESIGNS, KEPT, draw, sums_of
from validation.people.people_inference import (
    QUESTIONS,
    Population,
    ends_of,
    known,
    measured,
    noisy,
    population,
    truths_of_data,
)
from validation.people.people_report import Outcome, claims, figure_of, kept_table, notes

SIZES, PRICES, NEIGHBORS = (200, 2000), (dpi.ZCDP(0.1), dpi.PureDP(1.0)), ("add_remove", "replace_one")
CELLS, ENOUGH, SERIAL, PORTION = 200_000, 1000, 100, 5000
"""Rows drawn at once; replicates from which all sizes are studied; below which one process runs; inferred at once."""


# Studies


def portion(place: int, n: int, wanted: tuple[tuple[str, int], ...], sets: int, seed: list[int]) -> list[np.ndarray]:
    """Draw data sets and sum what is wanted of them, each (sets, m)."""
    drawn = draw(DESIGNS[place], np.random.default_rng(seed), n, sets)
    return [sums_of(measured(name, most).rows, drawn, most) for name, most in wanted]


def sums_in(place: int, n: int, wanted: tuple[tuple[str, int], ...], count: int, arguments: Options, seed: int) -> Any:
    """Noise-free sums of ``count`` data sets by question and max_rows."""
    together = max(1, CELLS // (n * max(KEPT)))
    starts = range(0, count, together)
    jobs = 1 if arguments.replicates < SERIAL else arguments.jobs
    parts = Parallel(n_jobs=jobs)(
        delayed(portion)(place, n, wanted, min(together, count - start), [seed, place, n, start]) for start in starts
    )
    return {key: np.concatenate([part[index] for part in parts]) for index, key in enumerate(wanted)}


def stored_sums(
    place: int, n: int, wanted: tuple[tuple[str, int], ...], count: int, arguments: Options, seed: int
) -> dict[tuple[str, int], np.ndarray]:
    """Return the sums of `sums_in`, from where they were stored: a study that was stopped goes on with them."""
    folder = parts_of("people_coverage", arguments)
    paths = {one: folder / f"sums-{place}-{n}-{one[0].replace(' ', '-')}-{one[1]}-{count}-{seed}.npy" for one in wanted}
    missing = tuple(one for one, path in paths.items() if not path.exists())
    if missing:
        for one, sums in sums_in(place, n, missing, count, arguments, seed).items():
            with paths[one].with_suffix(".part").open("wb") as file:
                np.save(file, sums)
            paths[one].with_suffix(".part").replace(paths[one])
    return {one: np.load(path) for one, path in paths.items()}


Cell = tuple[str, int, str, int]
"""Question, max_rows, relation, place of the price."""


def study(
    place: int, n: int, cells: list[Cell], people: Population, arguments: Options, *, again: bool, stored: bool = False
) -> list[dict[str, Any]]:
    """Run some cells of a design; again at ten times the replicates and judged by the same threshold."""
    seed = arguments.seed + (RULES.rerun_seed if again else 0)
    count = max(arguments.replicates, 4) * (RULES.rerun_factor if again else 1)
    wanted = tuple(dict.fromkeys((name, most) for name, most, _, _ in cells))
    sums = (stored_sums if stored else sums_in)(place, n, wanted, count, arguments, seed)
    rows = []
    for cell in cells:
        name, most, neighbors, price = cell
        measurement = measured(name, most, neighbors, PRICES[price])
        oracle = known(name, most, n, measurement, people)
        mine = sums[name, most]
        stream = [list(QUESTIONS).index(name), most, NEIGHBORS.index(neighbors), price]
        rng = np.random.default_rng([seed, place, n, *stream])
        alone = oracle.alone if most > 1 and price == 0 else None
        parts = [
            ends_of(name, measurement, noisy(measurement, mine[start : start + PORTION], rng), alone)
            for start in range(0, len(mine), PORTION)
        ]
        ends, naive, flagged = (np.concatenate(one) for one in zip(*parts, strict=True))
        truth = oracle.truth[None]
        if QUESTIONS[name].target == "data":
            truth = truths_of_data(name, measurement, mine)
        least = RULES.least_coverage(max(arguments.replicates, 4), 0.95)
        rows += [
            {
                "place": place, "cell": cell, "design": DESIGNS[place].name, "quantity": name, "term": term,
                "max_rows": most, "n": n, "neighbors": neighbors, "price": str(PRICES[price]),
                **measures(ends[:, index], naive[:, index], truth[:, index], oracle.half[index]),
                "covers the uncut mean": covers(ends[:, index], people.uncut) if name == "mean" else np.nan,
                "truth": float(oracle.truth[index]), "kappa": oracle.kappa,
                "noise s.d.": float(oracle.noise[index]), "sampling s.d.": float(oracle.sampling[index]),
                "flagged": float(flagged.mean()), "replicates": len(mine), "run": "rerun" if again else "first",
                "least": least,
            }
            for index, term in enumerate(oracle.names)
        ]  # fmt: skip
    return rows


def covers(ends: np.ndarray, truth: Any) -> float:
    """Share of intervals (R, 2) that hold the truth."""
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())


def measures(ends: np.ndarray, naive: np.ndarray, truth: np.ndarray, half: float) -> dict[str, float]:
    """Coverage and mean width of intervals (R, 2) and of those that take rows as independent."""
    widths = ends[:, 1] - ends[:, 0]
    bounded = np.isfinite(widths)
    return {
        "coverage": covers(ends, truth),
        "width / oracle": float(widths[bounded].mean() / (2 * half)),
        "unbounded": float(1 - bounded.mean()),
        "coverage if independent": covers(naive, truth),
    }


def judge(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Say which cells hold: coverage everywhere, width where noise does not dominate, except of the slope."""
    table = pd.DataFrame(rows)
    table.loc[table["price"] != str(PRICES[0]), "coverage if independent"] = np.nan
    table["clear"] = (table["kappa"] >= RULES.kappa) & np.isfinite(table["kappa"]) & (table["quantity"] != "slope")
    narrow = (table["width / oracle"] <= RULES.width_cap) & (table["unbounded"] <= RULES.unbounded_cap)
    table["covers"] = table["coverage"] >= table["least"]
    table["within cap"] = narrow | ~table["clear"]
    return table


@dataclass(frozen=True)
class Unit:
    """Cells of one question of one design, which are measured, and run again where they fail, together."""

    place: int
    n: int
    name: str
    most: int
    people: Population

    @property
    def cells(self) -> list[Cell]:
        """Both relations and all prices."""
        return [(self.name, self.most, relation, price) for relation in NEIGHBORS for price in range(len(PRICES))]


def measure(unit: Unit, _: int, replicates: int, seed: int, arguments: Options) -> dict[str, list[dict[str, Any]]]:
    """Measure the cells of a unit; those whose coverage fails are run again."""
    alone = replace(arguments, replicates=replicates, seed=seed, jobs=1)
    rows = study(unit.place, unit.n, unit.cells, unit.people, alone, again=False, stored=True)
    failed = list(dict.fromkeys(row["cell"] for row in rows if row["coverage"] < row["least"]))
    if failed and replicates >= ENOUGH:
        rows += study(unit.place, unit.n, failed, unit.people, alone, again=True, stored=True)
    return {"rows": rows}


def main_table(people: list[Population], arguments: Options) -> pd.DataFrame:
    """Every design and size; cells whose coverage fails are run again."""
    asked = tuple((name, most) for name in QUESTIONS for most in KEPT)
    units = [
        Unit(place, n, *one, people[place])
        for place in range(len(DESIGNS))
        for n in (SIZES if arguments.replicates >= ENOUGH else SIZES[:1])
        for one in asked
    ]
    for place, n in dict.fromkeys((unit.place, unit.n) for unit in units):  # one drawing serves all questions
        stored_sums(place, n, asked, max(arguments.replicates, 4), arguments, arguments.seed)
    parts = measured_once("people_coverage", units, partial(measure, arguments=arguments), arguments)
    return judge([row for rows in parts["rows"] for row in rows])


def run(arguments: Options) -> list[Claim]:
    """Check the short cut against the library, study every cell, write tables and figure."""
    agreed = checks(arguments)
    sets = max(100, min(1000, arguments.replicates // 5))
    people = [population(place, sets) for place in range(len(DESIGNS))]
    table = main_table(people, arguments)
    slope = slopes(people, arguments, SIZES if arguments.replicates >= ENOUGH else SIZES[:1])
    kept = kept_table(table, [one.uncut for one in people])
    outcome = Outcome(table, slope, kept, agreed, 2000 * sets)
    write_table(table.drop(columns=["place", "cell", "least"]), "people_coverage", arguments, notes(outcome))
    write_table(slope, "people_coverage_slopes", arguments, notes(outcome)[-2:])
    write_table(kept, "people_coverage_kept", arguments, notes(outcome)[:1])
    write_figure(figure_of(outcome), "people_coverage", arguments)
    return claims(outcome)
