"""SmartNoise SQL: averages and counts by its reader of a data frame, one row more or less, delta zero.

Averages are asked of columns that were centred between their bounds before: a sum's noise grows with the largest
absolute value.
"""

import numpy as np
import pandas as pd
from served import serve
from snsql import Privacy, from_df


def reader(frame, columns, epsilon, n):
    table = {"row_privacy": True, "rows": n, "censor_dims": False, **columns}
    privacy = Privacy(epsilon=epsilon, delta=0.0)
    return from_df(frame, privacy=privacy, metadata={"": {"s": {"t": table}}})


def average(rows, job, what, columns):
    low, high = job["bounds"][0]
    middle = (low + high) / 2
    described = {"x": {"type": "float", "lower": low - middle, "upper": high - middle}}
    epsilon = job["amount"] / columns
    asked = reader(pd.DataFrame({"x": rows[:, 0] - middle}), described, epsilon, len(rows))
    _, found = asked.execute(f"SELECT {what} FROM s.t")
    if not np.isclose(asked.odometer.spent[0], job["amount"]):
        raise ValueError(f"cost {asked.odometer.spent[0]}, not {job['amount']}")
    return middle, [float(one) for one in found]


def mean(rows, job):
    middle, found = average(rows, job, "AVG(x) AS m", 2)
    return {"estimate": [middle + found[0]]}


def mean_by_hand(rows, job):
    middle, (apart, variance) = average(rows, job, "AVG(x) AS m, VARIANCE(x) AS v", 3)
    half = 1.96 * np.sqrt(variance / len(rows)) if variance > 0 else np.nan
    return {"estimate": [middle + apart], "lower": [middle + apart - half], "upper": [middle + apart + half]}


def table(rows, job):
    codes = np.ravel_multi_index(tuple(rows.astype(int).T), job["levels"])
    cells = int(np.prod(job["levels"]))
    described = {"g": {"type": "int", "lower": 0, "upper": cells - 1}}
    asked = reader(pd.DataFrame({"g": codes}), described, job["amount"], len(rows))
    _, *found = asked.execute("SELECT g, COUNT(*) AS n FROM s.t GROUP BY g")
    counts = np.zeros(cells)
    for code, count in found:
        counts[int(code)] = count
    return {"counts": counts}


METHODS = {"mean": mean, "mean_by_hand": mean_by_hand, "table": table}

if __name__ == "__main__":
    serve(METHODS, ("smartnoise-sql", "opendp", "numpy"))
