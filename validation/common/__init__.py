"""The machine that all scripts share; a script states its designs, and what is measured of each.

cells
    The grid: every cell is measured once, stored as it ends, and read again by a run that goes on; cells that fail
    have one rerun. `measured` (a row a cell), `measured_again` (rows, with reruns), `kept_all` (anything).
claims
    The rule of judging: `least_coverage`, `largest_size`, `largest_width`; `Claim` for what is no share of replicates.
judging
    Coverage studies of many designs, with one table, one figure and two claims.
outputs
    Options of the command line; tables as CSV and markdown, figures.
leaves, stages, tulap_law
    Simulated nulls of many releases, and releases from exact sums by the kernel's own prices and draws.
timing
    Times of actions in turns, and memory of a call.
pages
    Sections of README and docs that are made of the outputs.
"""
