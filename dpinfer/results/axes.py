"""Where plots are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.errors import OptionError, type_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["given_or_new"]


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches."""
    if ax is not None:
        from matplotlib.axes import Axes  # noqa: PLC0415  (as below)

        if not isinstance(ax, Axes):
            raise OptionError("ax", type_of(ax), "matplotlib Axes, or None for a new figure")
        return ax
    from matplotlib import pyplot as plt  # noqa: PLC0415  (imported when first needed: it is slow to load)

    return plt.subplots(figsize=(width, height), layout="constrained")[1]
