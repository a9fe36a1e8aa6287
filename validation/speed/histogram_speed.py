"""Speed of a private histogram, as a ratio to numpy's own counting of the same integers in one run."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars, in_turns

ROWS, BINS = 10_000_000, 1000


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    rng = np.random.default_rng(arguments.seed)
    whole, real = rng.integers(0, BINS, ROWS), rng.random(ROWS)
    schema = dpi.Schema(whole=dpi.Integer(0, BINS - 1), real=dpi.Real(0, 1))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1e6))
    data = dpi.PrivateData(pd.DataFrame({"whole": whole, "real": real}), schema, ledger)
    counted = dpi.histogram("whole", data, bins=[*range(BINS - 1), BINS - 1.5, BINS - 1])
    binned = dpi.histogram("real", data, bins=BINS)
    planned, source = counted.measurement(dpi.ZCDP(1.0)), open_source(pd.DataFrame({"whole": whole}))
    works = {
        "numpy.bincount of the integers": lambda: np.bincount(whole, minlength=BINS),
        "the kernel's counts of the integers": lambda: exact_sums(planned.rows, source),
        "private histogram of the integers": lambda: counted.measure(dpi.ZCDP(1.0)),
        "numpy.histogram of the reals": lambda: np.histogram(real, BINS, (0.0, 1.0)),
        "private histogram of the reals": lambda: binned.measure(dpi.ZCDP(1.0)),
    }
    middle = in_turns(works, arguments.replicates).median().to_numpy()
    table = pd.DataFrame({"what": list(works), "seconds": middle, "ratio": middle / middle[[0, 0, 0, 3, 3]]})
    notes = [f"{ROWS:,} rows, {BINS:,} bins; median of {arguments.replicates} rounds; noise and ledger included."]
    write_table(table, "histogram_speed", arguments, notes)
    figure = bars(table.set_index("what")["ratio"], "time over numpy's", most=3.0)
    write_figure(figure, "histogram_speed", arguments)
    counts, whole_ratio = (float(table["ratio"].iloc[place]) for place in (1, 2))
    design = "10 million integers, 1,000 bins"
    return [
        Claim("time of a private histogram's counts over numpy.bincount", design, f"{counts:.2f}", counts <= 3.0),
        Claim("the same with plan, ledger and 1,000 draws", design, f"{whole_ratio:.2f}", whole_ratio <= 5.0),
    ]
