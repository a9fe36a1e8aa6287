"""Sources are where rows come from: tables in memory, files, streams, and engines that map rows where they are.

A source gives names of columns, and does a `Pass`: a function is called with the cells of every batch of rows, once
for each row, and what it gives comes back. An engine differs in who calls it. To plug one in, derive from `Source`:

- ``columns``: the names, which are public; read without looking at a row.
- ``batches(names, most)``: all rows as `Slice`, for what has to come to this process.
- ``pieces(one)``: by default batches are mapped by threads of this process. An engine with workers of its own sends
  ``one`` to them by cloudpickle. A worker calls ``part_result(one, slices)`` with the slices of its partition, made by
  ``slices_of`` from record batches, and returns at most one piece and the number of its rows; the engine checks that
  every partition comes back exactly once.
- ``opened()``: what is read in one run; it sees to it that all passes of the run read the same rows.
- ``check(...)``: refuses, before anything is charged, what the engine does not serve.

Nothing is ever decided by a number of rows or by statistics that a file keeps of them.
"""

from dpinfer.kernel.sources.base import Pass, Slice, Source, Table
from dpinfer.kernel.sources.frames import open_table
from dpinfer.kernel.sources.opening import open_source

__all__ = ["Pass", "Slice", "Source", "Table", "open_source", "open_table"]
