"""The benchmark: what users would pick instead, on the same rows at the same price, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from validation.common.outputs import Options, new_figure, store_table, write_figure, write_table
from validation.common.rules import Claim, Rule
from validation.common.study import judged_once, kept_all
from validation.peers.environments import PEERS, pythons
from validation.peers.peer_designs import Design, designs
from validation.peers.peer_errors import judged, plain_of
from validation.peers.peer_methods import GRAM, METHODS, OURS, Method, Price, answered, timed

QUICK = 50
"""Replicates below which a run is a quick one: the fewest rows, one price, and no environment is made."""

ASKED = {1000: (0.1, 1.0), 10_000: (0.1, 1.0)}
REGRESSED = {1000: (1.0,), 10_000: (0.1, 1.0, 4.0), 30_000: (1.0,)}
CONCENTRATED = {"mean": 1000, "histogram": 1000, "ols": 10_000}
"""Epsilons by numbers of rows; and the rows of which rho = 0.5 is asked."""

TOLD = {"mean": "means", "median": "medians", "histogram": "shares", "ols": "least squares", "logit": "logits"}
CALLS, TIMED_ROWS = 8, 10_000
SHOWN = ["data", "n", "price", "neighbors", "method", "rmse", "typical", "coverage", "bounded", "rejects"]
"""Columns of the page; the CSV file has all."""
CELL = ["task", "data", "n", "price", "neighbors"]


class Cell(NamedTuple):
    """Data sets of one size, asked at one price."""

    place: int
    n: int
    price: Price

    @property
    def design(self) -> Design:
        """Of its place."""
        return designs()[self.place]

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.place}-{self.n}-{self.price.measure}{self.price.amount:g}"


def cells_of(*, quick: bool) -> list[Cell]:
    """Every cell: designs, numbers of rows, prices."""
    found = []
    for place, design in enumerate(designs()):
        asked = REGRESSED if design.task in ("ols", "logit") else ASKED
        if design.data == "simulated: one regressor":
            asked = dict.fromkeys(REGRESSED, (1.0,))
        for n, amounts in asked.items():
            prices = [Price("epsilon", amount) for amount in amounts]
            prices += [Price("rho", 0.5)] * (CONCENTRATED.get(design.task) == n and len(design.columns) != 2)
            found += [Cell(place, n, price) for price in prices]
    return [cell for cell in found if cell.n == 1000 and cell.price == Price("epsilon", 1.0)] if quick else found


def methods_of(cell: Cell, there: dict[str, str]) -> list[Method]:
    """Peers that are there and serve a cell, and ours between the same neighbours; ours alone where none is there."""
    theirs = [
        one for one in METHODS[cell.design.task] if one.serves(cell.design, cell.price) and one.peer in there
    ]  # fmt: skip
    relations = {one.neighbors for one in METHODS[cell.design.task] if one.serves(cell.design, cell.price)}
    ours = [OURS[relation] for relation in sorted(relations)]
    if cell.design.task == "ols":
        ours += [GRAM[relation] for relation in sorted(relations)]
    return [*ours, *theirs]


def measure(cell: Cell, there: dict[str, str], replicates: int, seed: int) -> list[dict[str, Any]]:
    """Return a row for each method."""
    design = cell.design
    plain = plain_of(design, cell.n, replicates, seed)
    rows = []
    for method in methods_of(cell, there):
        answers = answered(method, design, cell.n, cell.price, replicates, seed, there.get(method.peer, ""))
        rows.append(
            {"task": design.task, "data": design.data, "n": cell.n, "price": cell.price.name,
             "neighbors": method.neighbors, "method": method.told, "peer": method.peer, "interval": method.interval,
             **judged(design, plain, answers), "plain rejects": plain.rejects, "quantities": len(plain.truth),
             "replicates": replicates}
        )  # fmt: skip
    return rows


def measured(there: dict[str, str], arguments: Options) -> pd.DataFrame:
    """Return a row for each cell and method."""
    parts: dict[str, Callable[[], Any]] = {
        "-".join([cell.name, *there]): partial(measure, cell, there, arguments.replicates, arguments.seed)
        for cell in cells_of(quick=arguments.replicates < QUICK)
    }
    return pd.DataFrame([row for rows in kept_all("peers", parts, arguments) for row in rows])


def times(there: dict[str, str], arguments: Options) -> pd.DataFrame:
    """Return processor seconds of one task after the other, in one run, and their ratios to ours."""
    price, rows = Price("epsilon", 1.0), []
    calls = 2 if arguments.replicates < QUICK else CALLS
    for task, theirs in METHODS.items():
        place = next(place for place, design in enumerate(designs()) if design.task == task)
        serving = [one for one in theirs if one.serves(designs()[place], price) and one.peer in there]
        first = {one.peer: one for one in [*reversed(serving), *(one for one in serving if one.query)]}
        for method in (OURS["add_remove"], *first.values()):
            found = timed(method, place, TIMED_ROWS, price, calls, arguments.seed, there.get(method.peer, ""))
            rows.append({"task": task, "method": method.told, **found})
    table = pd.DataFrame(rows)
    ours = table[table["method"] == "dpinfer"].set_index("task")["a call"]
    return table.assign(**{"times ours": table["a call"] / table["task"].map(ours)})


def errors_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return estimates with their "error": slopes are ratios of noisy sums, which have medians of errors alone."""
    told = table[table["task"] != "independence"]
    slopes = told["task"].isin(["ols", "logit"])
    return told.assign(error=np.where(slopes, told["typical"], told["rmse"]))


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Return our error over that of every peer, cell by cell."""
    errors = errors_of(table)
    ours = errors[errors["method"] == "dpinfer"].set_index(CELL)["error"]
    theirs = errors[errors["peer"] != "dpinfer"]
    own = ours.reindex(pd.MultiIndex.from_frame(theirs[CELL])).to_numpy()
    return theirs.assign(ours=own, ratio=own / theirs["error"].to_numpy())


def claims_of(table: pd.DataFrame, replicates: int) -> list[Claim]:
    """Judge our coverage and size, and our errors over those of the peers that were there."""
    ours = table[table["method"] == "dpinfer"].reset_index(drop=True)
    regressed = ours["task"].isin(["ols", "logit"])
    what = "least coverage of our 95% intervals on the rows of the benchmark: "
    claims = judged_once(
        (
            Rule(what + "means, medians, shares", "least", quantities="quantities", where=lambda _: ~regressed),
            Rule(what + "regressions", "least", quantities="quantities", where=lambda _: regressed),
            Rule("largest size at .05 of our test of independence on the rows of the benchmark", "rejects", "size",
                 0.05,
                 where=lambda _: ours["data"].str.contains("made independent")),
        ),
        ours, CELL,
    )  # fmt: skip
    beside = compared(table)
    slack = 1 + 3 / np.sqrt(replicates)
    for task, found in beside.groupby("task", sort=False):
        worst = found.loc[found["ratio"].idxmax()]
        told = f"largest error over a peer's at equal budget and neighbouring relation: {TOLD[task]}"
        named = f"{worst['method']}, {worst['data']}, n = {worst['n']:,}, {worst['price']}"
        claims.append(
            Claim(told, f"{len(found)} comparisons", f"{worst['ratio']:.2f}", worst["ratio"] <= slack,
                  threshold=f"at most {slack:.2f}", worst=named, cells=len(found),
                  failed=int((found["ratio"] > slack).sum()))
        )  # fmt: skip
    return claims


def figure_of(table: pd.DataFrame) -> Figure:
    """Typical errors of peers against ours, and coverage of intervals."""
    figure, (left, right) = new_figure(6, 2.7, 1, 2)
    beside = compared(table)
    for mark, (peer, found) in zip("osv^", beside.groupby("peer", sort=False), strict=False):
        left.plot(found["ours"], found["error"], mark, ms=4.5, alpha=0.75, label=str(peer))
    ends = np.array([0.4, max(2.0, beside[["ours", "error"]].max().max())])
    left.plot(ends, ends, color="black", lw=0.8)
    left.set(xscale="log", yscale="log", xlabel="error, dpinfer", ylabel="error, peer")
    left.set_title("Above the line dpinfer is nearer to the truth", fontsize=9)
    if len(beside):
        left.legend(fontsize=8, frameon=False)
    shown = table[table["coverage"].notna()]
    tasks = list(dict.fromkeys(shown["task"]))
    for peer, found in shown.groupby(np.where(shown["peer"] == "dpinfer", "dpinfer", "textbook, on noisy numbers")):
        places = np.array([tasks.index(task) for task in found["task"]]) + (0.12 if peer == "dpinfer" else -0.12)
        right.plot(found["coverage"], places, "o" if peer == "dpinfer" else "x", ms=5, alpha=0.7, label=str(peer))
    right.axvline(0.95, color="black", lw=0.8)
    right.set_yticks(range(len(tasks)), tasks)
    right.set(xlabel="coverage of 95% intervals", xlim=(-0.02, 1.02))
    right.invert_yaxis()
    right.legend(fontsize=8, frameon=False, loc="lower left")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure, write the tables and the figure."""
    quick = arguments.replicates < QUICK
    there = pythons(install=not quick)
    missing = [f"{peer.package} {peer.version}" for name, peer in PEERS.items() if name not in there]
    notes = [
        "Distances from the truth, over the root mean squared error of the fit without privacy; rmse: root mean "
        "square, typical: median. Rows are drawn with replacement from a population whose answer is the truth.",
        "Measured: " + ", ".join(["dpinfer", *(f"{PEERS[one].package} {PEERS[one].version}" for one in there)]) + ".",
    ]
    if missing:
        notes.append(f"Not installed, so not measured: {', '.join(missing)}.")
    table = measured(there, arguments)
    write_table(table[[name for name in SHOWN if name in table]], "peers", arguments, notes)
    store_table(table, arguments.out / "peers.csv")
    write_table(times(there, arguments), "peers_times", arguments, [
        f"Processor seconds at n = {TIMED_ROWS:,}, epsilon = 1, first design of each task, in a fresh process each: "
        "the import, the first call, and the median of the others.",
    ])  # fmt: skip
    write_figure(figure_of(table), "peers", arguments)
    return claims_of(table, arguments.replicates)
