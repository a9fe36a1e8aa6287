"""Where plots are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["given_or_new"]


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches."""
    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax
