"""Running the blocks of a design: in turn or in parallel, those done before read from a checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.display.progress import LOG, watched
from dpinfer.errors import OptionError
from dpinfer.studies.engine import run_block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpinfer.studies.design import Design, Task

__all__ = ["open_checkpoint", "run_design"]


def run_design(
    design: Design, *, n_jobs: int = 1, progress: bool | None = False, folder: Path | None = None
) -> list[tuple[Task, pa.Table]]:
    """Run the blocks of a design that are not done yet, and collect all in order."""
    done: dict[Task, pa.Table] = {}
    for task in design.tasks if folder is not None else ():
        path = folder / f"{task.name}.parquet"  # type: ignore[operator]
        if path.exists():
            done[task] = pq.read_table(path)
    pending = [task for task in design.tasks if task not in done]
    try:
        run = _run_all(design, pending, n_jobs)
        for task, table in watched(run, "blocks", total=len(design.tasks), done=len(done), progress=progress):
            done[task] = table
            LOG.info("study: %d of %d blocks done", len(done), len(design.tasks))
            if folder is not None:
                _keep(table, folder / f"{task.name}.parquet")
    except KeyboardInterrupt:
        if not done:
            raise
    return [(task, done[task]) for task in design.tasks if task in done]


def _run_all(design: Design, tasks: list[Task], n_jobs: int) -> Iterator[tuple[Task, pa.Table]]:
    if n_jobs == 1:
        yield from ((task, run_block(design, task)) for task in tasks)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415  (imported when first needed)

    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from run(delayed(_one)(design, task) for task in tasks)


def _one(design: Design, task: Task) -> tuple[Task, pa.Table]:
    return task, run_block(design, task)


def open_checkpoint(folder: Path, design: Design) -> Path:
    """Return the folder of a checkpoint; refuse one that holds the blocks of another design."""
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
