"""The machine that all scripts share; a script states its designs, and what is measured of each.

study
    A table: cells, how they are drawn, what a row shows, what is asked. Batches are stored as they end, and cells left
    as soon as their answer is clear.
rules
    Looks, thresholds and seeds; rules, and the claims that are made of them. `rule_errors` computes the errors of both.
simulated
    Cells that are studied by the package's own `coverage_study`.
real
    Real data sets as populations: codebooks, draws with replacement, true values.
outputs
    Options of the command line; tables as CSV and markdown, figures. Tables are read by `read_table`: a cell that
    repeats the one above may be stored as a mark.
leaves, stages, tulap_law
    Simulated nulls of many releases, and releases from exact sums by the kernel's own prices and draws.
timing
    Times of actions in turns, and memory of a call.
pages
    Sections of README and docs that are made of the outputs.
code
    The digest of what a script is made of, which stands beside its results.
"""
