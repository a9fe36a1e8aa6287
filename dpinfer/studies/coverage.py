"""Coverage studies: whether the interval covers, at what width, and what the noise does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.display.progress import check_progress
from dpinfer.errors import DataError, DPInferError, OptionError, names_of
from dpinfer.studies.design import Design, Task, as_tuple
from dpinfer.studies.engine import draw_columns, run_block
from dpinfer.studies.results import StudyResults
from dpinfer.studies.running import open_checkpoint, run_design

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema

__all__ = ["coverage_study"]


def coverage_study(
    generate: Callable[[np.random.Generator, int], Any],
    procedure: Procedure,
    *,
    schema: Schema,
    truth: Mapping[str, float] | None,
    n: int | Sequence[int],
    privacy: Privacy | Sequence[Privacy],
    neighbors: Neighbors = "add_remove",
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool | None = True,
    checkpoint: str | os.PathLike[str] | None = None,
    baseline: Callable[[Any], Any] | None = None,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> StudyResults:
    """Measure how a procedure's intervals, standard errors and tests behave over simulated data.

    Parameters
    ----------
    generate : callable
        ``generate(rng, n)`` draws one data set: a dict of arrays of length n (fast) or a DataFrame.
    procedure : Procedure
        A question that is not bound to data; anything with ``bind(data)`` and ``fit(price)`` whose results have
        ``params``, ``bse``, ``pvalues`` and ``conf_int``. With ``estimate`` it runs vectorised.
    schema : Schema
    truth : mapping of str to float, or None
        True value of the coefficients, by name; others are reported without coverage. Where a model is wrong, its best
        approximation in the population is what is true. None takes that from the study itself: the estimates
        without noise from the expected sums of all data sets or, where they are fitted one by one, the mean of the
        estimates without noise, whose bias in small samples is then not seen. Either is known to a standard error
        over the root of the replicates. With an empty mapping nothing is compared, and where data sets are fitted one
        by one no estimates without noise are made.
    n : int or sequence of int
        Numbers of rows.
    privacy : Privacy or sequence of Privacy
        Prices; the same data serve every price.
    neighbors : {"add_remove", "replace_one"}
    replicates : int
    level : float
        Nominal coverage.
    seed : int
        The numbers depend on it and on the design, not on ``n_jobs``.
    n_jobs : int
        Worker processes, by joblib with whatever backend is active.
    progress : bool or None
        Whether to show a progress bar; None as `dpinfer.show_progress` says.
    checkpoint : path-like, optional
        A directory in which every block is kept as Parquet, so that an interrupted study goes on.
    baseline : callable, optional
        A non-private fit of the same data: ``baseline(frame)`` returns results of statsmodels.
    contrasts : mapping of name to weights by coefficient, optional
        Further quantities that are studied like coefficients, such as ``{"x - z": {"x": 1, "z": -1}}``.

    Returns
    -------
    StudyResults
        If interrupted from the keyboard, of the blocks that are done.

    Raises
    ------
    OptionError
        If an option has no such value, ``truth`` names an unknown coefficient, or ``checkpoint`` holds another design.
    DataError
        If the first draw of ``generate`` fails or returns the wrong columns. Later failures are counted.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.studies import population
    >>> one = population("one uniform")
    >>> study = dpi.coverage_study(
    ...     one.generate, dpi.ols(one.formula, method="gram"), schema=one.schema, truth=one.truth, n=500,
    ...     privacy=dpi.ZCDP(0.5), replicates=200, seed=1, progress=False,
    ... )
    >>> cells = study.cells.set_index("term")
    >>> bool(0.88 < cells.loc["x0", "coverage"] <= 1)
    True
    """
    check_progress(progress)
    design = Design(
        generate=generate,
        procedure=procedure,
        schema=schema,
        truth=None if truth is None else dict(truth),
        n=as_tuple(n),
        privacy=as_tuple(privacy),
        neighbors=neighbors,
        replicates=replicates,
        level=level,
        seed=seed,
        baseline=baseline,
        contrasts=dict(contrasts or {}),
    )
    _rehearse(design)
    folder = None if checkpoint is None else open_checkpoint(Path(checkpoint), design)
    return StudyResults(design, run_design(design, n_jobs=n_jobs, progress=progress, folder=folder))


def _rehearse(design: Design) -> None:
    """Draw once and fit once at the smallest size, so that a design that cannot work says so at once."""
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31,)))
    try:
        draw_columns(design, rng, min(design.n))
    except DPInferError:
        raise
    except Exception as error:
        raise DataError(f"generate failed at n = {min(design.n)}: {type(error).__name__}: {error}") from error
    least = replace(design, n=(min(design.n),), privacy=design.privacy[:1], replicates=1)
    trial = run_block(least, Task(0, 0, 1))
    known = trial.column("term").to_pylist()
    failure = trial.column("failure").to_pylist()[0]
    if failure and not design.estimates_many:
        return
    unknown = [name for name in design.truth or () if name not in known]
    if unknown:
        raise OptionError("truth", names_of(unknown), f"names among {', '.join(known)}")
