"""Coverage studies: whether the interval covers, at what width, and what the noise does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.errors import DataError, DPInferError, OptionError, names_of
from dpinfer.studies.design import Design, Task, as_tuple
from dpinfer.studies.engine import draw_columns, run_block
from dpinfer.studies.results import StudyResults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema

__all__ = ["coverage_study"]


def coverage_study(
    generate: Callable[[np.random.Generator, int], Any],
    procedure: Procedure,
    *,
    schema: Schema,
    truth: Mapping[str, float],
    n: int | Sequence[int],
    privacy: Privacy | Sequence[Privacy],
    neighbors: Neighbors = "add_remove",
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = True,
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
    truth : mapping of str to float
        True value of the coefficients, by name; others are reported without coverage.
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
    progress : bool
        Whether to show a progress bar.
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
    ...     one.generate, dpi.ols(one.formula), schema=one.schema, truth=one.truth, n=500,
    ...     privacy=dpi.ZCDP(0.5), replicates=200, seed=1, progress=False,
    ... )
    >>> cells = study.cells.set_index("term")
    >>> bool(0.88 < cells.loc["x0", "coverage"] <= 1)
    True
    """
    design = Design(
        generate=generate,
        procedure=procedure,
        schema=schema,
        truth=dict(truth),
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
    folder = None if checkpoint is None else _open_checkpoint(Path(checkpoint), design)
    return run_design(design, n_jobs=n_jobs, progress=progress, folder=folder)


def run_design(design: Design, *, n_jobs: int = 1, progress: bool = False, folder: Path | None = None) -> StudyResults:
    """Run the blocks of a design that are not done yet, and collect all in order."""
    done: dict[Task, pa.Table] = {}
    for task in design.tasks if folder is not None else ():
        path = folder / f"{task.name}.parquet"  # type: ignore[operator]
        if path.exists():
            done[task] = pq.read_table(path)
    pending = [task for task in design.tasks if task not in done]
    try:
        for task, table in _watched(_run_all(design, pending, n_jobs), len(design.tasks), len(done), progress):
            done[task] = table
            if folder is not None:
                _keep(table, folder / f"{task.name}.parquet")
    except KeyboardInterrupt:
        if not done:
            raise
    return StudyResults(design, [(task, done[task]) for task in design.tasks if task in done])


def _run_all(design: Design, tasks: list[Task], n_jobs: int) -> Iterator[tuple[Task, pa.Table]]:
    if n_jobs == 1:
        yield from ((task, run_block(design, task)) for task in tasks)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415  (imported when first needed)

    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from run(delayed(_one)(design, task) for task in tasks)


def _one(design: Design, task: Task) -> tuple[Task, pa.Table]:
    return task, run_block(design, task)


def _watched(
    results: Iterator[tuple[Task, pa.Table]], total: int, done: int, progress: bool
) -> Iterator[tuple[Task, pa.Table]]:
    if not progress:
        yield from results
        return
    from tqdm.auto import tqdm  # noqa: PLC0415  (imported when first needed)

    yield from tqdm(results, total=total, initial=done, desc="blocks")


def _rehearse(design: Design) -> None:
    """Draw once and fit once at the smallest size, so that a design that cannot work says so at once."""
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31,)))
    try:
        draw_columns(design, rng, min(design.n))
    except DPInferError:
        raise
    except Exception as error:
        raise DataError(f"generate failed at n = {min(design.n)}: {type(error).__name__}: {error}") from error
    trial = run_block(
        Design(**{**vars(design), "n": (min(design.n),), "privacy": design.privacy[:1], "replicates": 1}), Task(0, 0, 1)
    )
    known = trial.column("term").to_pylist()
    failure = trial.column("failure").to_pylist()[0]
    if failure and not design.procedure.estimates_many:
        return
    unknown = [name for name in design.truth if name not in known]
    if unknown:
        raise OptionError("truth", names_of(unknown), f"names among {', '.join(known)}")


def _open_checkpoint(folder: Path, design: Design) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "design.json"
    mine = design.fingerprint()
    if path.exists() and path.read_text(encoding="utf-8") != mine:
        raise OptionError("checkpoint", str(folder), "an empty directory: this one holds the blocks of another design")
    if not path.exists():
        _write_whole(path, mine.encode())
    return folder


def _keep(table: pa.Table, path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    _write_whole(path, sink.getvalue().to_pybytes())


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_bytes(content)
    temporary.replace(path)
