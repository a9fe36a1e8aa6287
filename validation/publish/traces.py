"""Count what a private question passes through: files, functions and switches of folder, from question to summary.

Only frames of the package count. A function is a code object that has a name: comprehensions and lambdas belong to the
function around them. A switch is a call whose caller, the nearest frame of the package, is of another folder. Stages
repeat what they call; a crossing is a switch that counts once for its two functions, as a reader follows it once.
Importing is left out: every question is asked once before it is traced.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi

PACKAGE = Path(dpi.__file__).parent
ROWS, SEED = 400, 20261120
PRICE = dpi.ZCDP(0.1)
SCHEMA = dpi.Schema(
    income=dpi.Real(0, 100),
    age=dpi.Real(18, 90),
    married=dpi.Boolean(),
    region=dpi.Category(("north", "south", "east")),
)
QUESTIONS: dict[str, Callable[[dpi.PrivateData], Any]] = {
    "ols": lambda data: dpi.ols("income ~ age + married", data=data),
    "ols, cross-products": lambda data: dpi.ols("income ~ age + married", data=data, method="gram"),
    "mean": lambda data: dpi.mean("income", data=data, by="married"),
    "chi2_contingency": lambda data: dpi.chi2_contingency("region", "married", data=data),
    "quantile": lambda data: dpi.quantile("income", data=data, q=(0.25, 0.5, 0.75)),
}


class Trace:
    """What was entered since `sys.setprofile` was given this.

    Attributes
    ----------
    functions : set of code objects
    switches : Counter of (folder of the caller, folder of the called)
    crossings : set of (code object of the caller, of the called)
        Of two folders.
    """

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.switches: Counter[tuple[str, str]] = Counter()
        self.crossings: set[tuple[CodeType, CodeType]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002
        """Note the entry of a named function of the package; a generator is entered whenever it goes on."""
        if event != "call" or not counted(frame):
            return
        self.functions.add(frame.f_code)
        caller = frame.f_back
        while caller is not None and not counted(caller):
            caller = caller.f_back
        if caller is not None and folder(caller) != folder(frame):
            self.switches[folder(caller), folder(frame)] += 1
            self.crossings.add((caller.f_code, frame.f_code))

    @property
    def files(self) -> set[str]:
        """Files whose functions were entered."""
        return {code.co_filename for code in self.functions}


def counted(frame: FrameType) -> bool:
    """Whether a frame is one of a named function of the package."""
    return frame.f_code.co_filename.startswith(f"{PACKAGE}/") and not frame.f_code.co_name.startswith("<")


def folder(frame: FrameType) -> str:
    """Return the folder of a frame below the package."""
    return Path(frame.f_code.co_filename).parent.relative_to(PACKAGE).as_posix()


def private_data() -> dpi.PrivateData:
    """Return simulated rows with a ledger in memory."""
    rng = np.random.default_rng(SEED)
    age, married = rng.uniform(18, 90, ROWS), rng.random(ROWS) < 0.6
    income = np.clip(20 + 0.4 * age + 8 * married + rng.normal(0, 12, ROWS), 0, 100)
    region = rng.choice(["north", "south", "east"], ROWS)
    frame = pd.DataFrame({"income": income, "age": age, "married": married, "region": region})
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))


def trace(ask: Callable[[dpi.PrivateData], Any]) -> Trace:
    """Ask a question twice, each time of new data, and trace the second time."""
    str(ask(private_data()).fit(PRICE).summary())
    found, data = Trace(), private_data()
    sys.setprofile(found)
    try:
        str(ask(data).fit(PRICE).summary())
    finally:
        sys.setprofile(None)
    return found


def table() -> pd.DataFrame:
    """A row for each question, with its counts and its most frequent switch."""
    rows = []
    for name, ask in QUESTIONS.items():
        found = trace(ask)
        (caller, called), times = found.switches.most_common(1)[0]
        rows.append(
            {
                "question": name,
                "files": len(found.files),
                "functions": len(found.functions),
                "switches": found.switches.total(),
                "crossings": len(found.crossings),
                "kinds of switches": len(found.switches),
                "most frequent switch": f"{caller} to {called}, {times} times",
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    print(table().to_string(index=False))
