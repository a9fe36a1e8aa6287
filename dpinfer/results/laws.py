"""The limiting law of a statistic beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.results.style import MARKED, grouped, legend, restrain, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_law", "dress_law"]

_TAIL = 0.001


def draw_law(ax: Axes, observed: float, law: Any, pvalue: str) -> None:
    """Draw the density of a law of scipy, where there is one, and the observed statistic as a line."""
    if law is not None:
        ends = float(law.ppf(_TAIL)), float(law.isf(_TAIL))
        known = [one for one in (*ends, observed) if np.isfinite(one)]
        points = np.linspace(min(known), max(known), 401)[1:]
        ax.fill_between(points, law.pdf(points), color="C0", alpha=0.5, lw=0, label="under the null hypothesis")
    label = f"observed, p-value {pvalue}"
    if np.isfinite(observed):
        ax.axvline(observed, color=MARKED, lw=2, label=label)
    else:
        ax.plot([], [], color=MARKED, lw=2, label=f"{label}: not finite")


def dress_law(ax: Axes, label: str, title: str) -> None:
    """Name a statistic and the hypothesis, and leave out the scale of a density."""
    ax.set_xlabel(label)
    titled(ax, title)
    ax.set_yticks([])
    restrain(ax, left=False)
    grouped(ax.xaxis)
    legend(ax)
