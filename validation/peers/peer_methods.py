"""Who answers what, at which price and between which neighbours; and our own answers."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from validation.peers.drivers.served import answers
from validation.peers.environments import PeerFailedError, ask
from validation.peers.peer_designs import Design, designs

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Price:
    """An amount of pure or of zero-concentrated privacy."""

    measure: str
    amount: float

    @property
    def name(self) -> str:
        """As tables print it."""
        return f"{self.measure} = {self.amount:g}"

    @property
    def paid(self) -> Any:
        """Ours."""
        return dpi.PureDP(self.amount) if self.measure == "epsilon" else dpi.ZCDP(self.amount)


@dataclass(frozen=True)
class Method:
    """A way to answer a task.

    Attributes
    ----------
    peer : str
        "dpinfer", or a name of `PEERS`.
    told : str
        What a table calls it.
    asked : str
        Of the driver's methods.
    neighbors : str
        The relation for which the price holds.
    measures : tuple of str
    interval : str
        "own", "by hand", or empty where nothing is told.
    one : bool
        Whether it serves one regressor alone.
    query : str
        The driver's method that is timed, if another.
    options : dict
        Tuning.
    """

    peer: str
    told: str
    asked: str
    neighbors: str = "add_remove"
    measures: tuple[str, ...] = ("epsilon",)
    interval: str = ""
    one: bool = False
    query: str = ""
    options: dict[str, float] = field(default_factory=dict)

    def serves(self, design: Design, price: Price) -> bool:
        """Whether it answers this at such a price."""
        return price.measure in self.measures and not (self.one and len(design.columns) > 2)


BOTH = ("epsilon", "rho")
LOGIT = "diffprivlib LogisticRegression"
TABLES = [
    Method("diffprivlib", "diffprivlib histogram", "table", interval="by hand"),
    Method("opendp", "OpenDP counts", "table", measures=BOTH, interval="by hand", query="table_query"),
    Method("smartnoise", "SmartNoise COUNT", "table", interval="by hand"),
]
METHODS: dict[str, list[Method]] = {
    "mean": [
        Method("diffprivlib", "diffprivlib mean", "mean", "replace_one"),
        Method("diffprivlib", "diffprivlib mean and std", "mean_by_hand", "replace_one", interval="by hand"),
        Method("opendp", "OpenDP mean, n public", "mean", "replace_one", BOTH),
        Method("opendp", "OpenDP mean", "mean", measures=BOTH, query="mean_query"),
        Method("opendp", "OpenDP mean and square", "mean_by_hand", measures=BOTH, interval="by hand"),
        Method("smartnoise", "SmartNoise AVG", "mean"),
        Method("smartnoise", "SmartNoise AVG and VARIANCE", "mean_by_hand", interval="by hand"),
    ],
    "median": [
        Method("diffprivlib", "diffprivlib median", "median", "replace_one"),
        Method("opendp", "OpenDP median", "median", query="median_query"),
    ],
    "histogram": TABLES,
    "independence": TABLES,
    "ols": [
        Method("diffprivlib", "diffprivlib LinearRegression", "ols", "replace_one"),
        Method("opendp", "OpenDP noise, by hand", "ols", measures=BOTH, interval="by hand"),
        Method("opendp", "OpenDP Theil-Sen", "theil_sen", one=True),
    ],
    "logit": [
        Method("diffprivlib", LOGIT, "logit", "replace_one", options={"norm": 1.0, "C": 1.0}),
        Method("diffprivlib", f"{LOGIT}, C = 100", "logit", "replace_one", options={"norm": 1.0, "C": 100.0}),
        Method("diffprivlib", f"{LOGIT}, half the norm", "logit", "replace_one", options={"norm": 0.5, "C": 1.0}),
        Method("diffprivlib", f"{LOGIT}, C = 0.01", "logit", "replace_one", options={"norm": 1.0, "C": 0.01}),
    ],
}
"""Of the peers, by task. The number of rows is public where one row is replaced."""

OURS = {relation: Method("dpinfer", "dpinfer", "ours", relation, BOTH, "own") for relation in
        ("replace_one", "add_remove")}  # fmt: skip

GRAM = {relation: Method("dpinfer", 'dpinfer, method="gram"', "gram", relation, BOTH, "own") for relation in OURS}

ASK: dict[str, Callable[[Design, Any], Any]] = {
    "mean": lambda design, data: dpi.mean(design.names[0], data),
    "median": lambda design, data: dpi.median(design.names[0], data),
    "histogram": lambda design, data: dpi.table(design.names, data),
    "independence": lambda design, data: dpi.chi2_contingency(*design.names, data),
    "ols": lambda design, data: dpi.ols(design.formula, data),
    "logit": lambda design, data: dpi.logit(design.formula, data),
    "gram": lambda design, data: dpi.ols(design.formula, data, method="gram"),
}


def job_of(method: Method, design: Design, n: int, price: Price, replicates: int, seed: int) -> dict[str, Any]:
    """Return what a driver reads."""
    return {
        "method": method.asked, "n": n, "replicates": replicates, "seed": seed, "independent": design.independent,
        "bounds": [(column.lower, column.upper) for column in design.columns], "levels": design.levels,
        "integer": design.columns[0].integer, "measure": price.measure, "amount": price.amount,
        "neighbors": method.neighbors, "options": method.options,
    }  # fmt: skip


def answered(
    method: Method, design: Design, n: int, price: Price, replicates: int, seed: int, python: str = ""
) -> list[dict[str, Any]]:
    """Return a method's answers to the same data sets, whoever is asked.

    Raises
    ------
    PeerFailedError
        If a peer drew other rows.
    """
    job = job_of(method, design, n, price, replicates, seed)
    if method.peer == "dpinfer":
        rng = np.random.default_rng([seed, n, 1])

        def ours(rows: np.ndarray, _: Any) -> dict[str, Any]:
            return told(design, public(method, design, rows, rng), price, method.asked)

        return answers(ours, design.population, job)
    found = ask(python, f"with_{method.peer}", design.population, job)["answers"]
    same = answers(lambda *_: {}, design.population, job)
    if not np.allclose([one["sum"] for one in found], [one["sum"] for one in same]):
        raise PeerFailedError(f"{method.told} drew other rows than we did")
    return found


def public(method: Method, design: Design, rows: np.ndarray, rng: np.random.Generator) -> dpi.PublicData:
    """Rows whose noise has a seed, for studies."""
    frame = pd.DataFrame(rows, columns=design.names)
    return dpi.PublicData(frame, design.schema(method.neighbors), rng=rng, neighbors=method.neighbors)  # type: ignore[arg-type]


def private(method: Method, design: Design, rows: np.ndarray, price: Price) -> dpi.PrivateData:
    """Rows as they are asked in earnest: a ledger, and the kernel's own samplers."""
    frame = pd.DataFrame(rows, columns=design.names)
    ledger = dpi.Ledger.in_memory(price.paid, neighbors=method.neighbors)  # type: ignore[arg-type]
    return dpi.PrivateData(frame, design.schema(method.neighbors), ledger)


def told(design: Design, data: Any, price: Price, asked: str = "ours") -> dict[str, Any]:
    """Our estimate and interval, or counts, or p-value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ASK[design.task if asked == "ours" else asked](design, data).fit(price.paid)
        if design.task == "independence":
            return {"pvalue": results.pvalue}
        if design.task == "histogram":
            counted, shares = results.conf_int().to_numpy(), results.proportions(design.names[0])
            ends = shares.conf_int().to_numpy()
            return {"counts": results.params.to_numpy(), "estimate": shares.params.to_numpy(), "lower": ends[:, 0],
                    "upper": ends[:, 1], "count_lower": counted[:, 0], "count_upper": counted[:, 1]}  # fmt: skip
        names = design.names[:-1] if design.task in ("ols", "logit") else results.params.index
        ends = results.conf_int().loc[names].to_numpy()
        return {"estimate": results.params[names].to_numpy(), "lower": ends[:, 0], "upper": ends[:, 1]}


def timed(
    method: Method, place: int, n: int, price: Price, calls: int, seed: int, python: str = ""
) -> dict[str, float]:
    """Return processor seconds of the import, of the first call, and the median of the others, in a fresh process."""
    design = designs()[place]
    job = {**job_of(method, design, n, price, calls, seed), "design": place}
    if method.query:
        job["method"] = method.query
    ours = method.peer == "dpinfer"
    found = ask(sys.executable if ours else python, f"with_{method.peer}", design.population, job,
                ROOT if ours else None)  # fmt: skip
    failed = [one["failed"] for one in found["answers"] if "failed" in one]
    if failed:
        raise PeerFailedError(f"{method.told}: {failed[0]}")
    seconds = [one["seconds"] for one in found["answers"]]
    return {"loading": found["loading"], "first call": seconds[0], "a call": float(np.median(seconds[1:]))}
