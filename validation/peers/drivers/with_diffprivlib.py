"""diffprivlib: bounds, ranges and norms from public metadata, all else as its documentation has it.

Its means, medians and models hold the number of rows public (replace one); its histogram adds noise for one row more
or less.
"""

import numpy as np
from diffprivlib import tools
from diffprivlib.models import LinearRegression, LogisticRegression
from served import serve


def bounds_of(job):
    return tuple(np.array(job["bounds"], dtype=float).T)


def mean(rows, job):
    low, high = job["bounds"][0]
    return {"estimate": [tools.mean(rows[:, 0], epsilon=job["amount"], bounds=(low, high))]}


def mean_by_hand(rows, job):
    limits, share = tuple(job["bounds"][0]), job["amount"] / 2
    middle = tools.mean(rows[:, 0], epsilon=share, bounds=limits)
    half = 1.96 * tools.std(rows[:, 0], epsilon=share, bounds=limits) / np.sqrt(len(rows))
    return {"estimate": [middle], "lower": [middle - half], "upper": [middle + half]}


def median(rows, job):
    return {"estimate": [tools.median(rows[:, 0], epsilon=job["amount"], bounds=tuple(job["bounds"][0]))]}


def table(rows, job):
    codes = np.ravel_multi_index(tuple(rows.astype(int).T), job["levels"])
    cells = int(np.prod(job["levels"]))
    return {"counts": tools.histogram(codes, epsilon=job["amount"], bins=cells, range=(-0.5, cells - 0.5))[0]}


def scaled(rows, job):
    low, high = bounds_of(job)
    middle, half = (low + high)[:-1] / 2, (high - low)[:-1] / 2
    return (rows[:, :-1] - middle) / half, half


def ols(rows, job):
    x, half = scaled(rows, job)
    low, high = job["bounds"][-1]
    ones = np.ones(len(half))
    model = LinearRegression(epsilon=job["amount"], bounds_X=(-ones, ones), bounds_y=(low, high))
    return {"estimate": np.ravel(model.fit(x, rows[:, -1]).coef_) / half}


def logit(rows, job):
    x, half = scaled(rows, job)
    norm = job["options"]["norm"] * np.sqrt(len(half))
    model = LogisticRegression(epsilon=job["amount"], data_norm=norm, C=job["options"]["C"], max_iter=1000)
    return {"estimate": np.ravel(model.fit(x, rows[:, -1]).coef_) / half}


METHODS = {
    "mean": mean, "mean_by_hand": mean_by_hand, "median": median, "table": table, "ols": ols, "logit": logit,
}  # fmt: skip

if __name__ == "__main__":
    serve(METHODS, ("diffprivlib", "scikit-learn", "numpy"))
