"""Rows with cells that no column takes: shared by the tests that only released numbers depend on rows."""

import pandas as pd


def with_cells(frame, **cells):
    """Return a frame of objects whose sixth row has these cells."""
    frame = frame.astype(object)
    for name, cell in cells.items():
        column = frame[name].to_numpy(dtype=object, copy=True)
        column[5] = cell
        frame[name] = pd.Series(column, dtype=object)
    return frame
