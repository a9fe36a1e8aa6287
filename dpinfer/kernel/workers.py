"""Runs a user's code on blocks of confidential rows so that nothing it does can be seen but the numbers it returns.

The code runs in processes of its own, without a terminal, with its output discarded, and each block alone in a
process. A block that fails in whatever way (an exception, an exit, a crash, a wrong result) is a block of NaN.
Running time, files and network connections are not watched: see the documentation of the threat model.
"""

from __future__ import annotations

import io
import logging
import mmap
import os
import pickle
import queue
import random
import select
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import cpu_count

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.blocks import called, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dpinfer.kernel.rows.base import Array

    Estimator = Callable[[Any], Any]

_READY, _FAILED = b"dpinfer: ready\n", b"dpinfer: failed: "
"""Ends of the line with which a process answers an estimator."""

_DONE = b"1"
"""First byte of the answer to a block; numbers follow. Another byte: the block's own process died."""

_FORKS = sys.platform == "linux"
"""Whether every block gets a process of its own. Elsewhere system libraries do not bear a fork."""

_ENVIRONMENT = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "VECLIB_MAXIMUM")},
    "MPLBACKEND": "Agg",  # no window opens
    "PYTHONHASHSEED": "0",  # the order of a set of texts is the same in every process
    "PYTHONWARNINGS": "ignore",
}


def fit_here(estimator: Estimator, frame: pd.DataFrame, *, width: int | tuple[int, ...]) -> Array:
    """Fit one block in this process, where there is nothing to protect or the code is the library's own.

    NaN stands for a number that is not finite, and everywhere if the estimator raised or returned anything else than
    numbers of that shape. Warnings and what Python prints are dropped; log records, output of compiled code, changes of
    global state and the end of the process are not prevented. An interrupt by the user passes.
    """
    # Recorded, because the estimator may change what is ignored.
    with warnings.catch_warnings(record=True), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            with np.errstate(all="ignore"):
                return as_floats(estimator(frame), width)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return np.full(width, np.nan)


def fit_apart(
    estimator: Estimator,
    frames: Callable[[int], Any],
    *,
    count: int,
    width: int | tuple[int, ...],
    n_jobs: int = -1,
    progress: bool = False,
) -> Array:
    """Fit blocks in other processes; what comes back is numbers (k, *width) and nothing else.

    ``frames(i)`` returns the rows of block i, or a list of them and of parts of them, of which each is fitted. It is
    called from threads, when a process is free to take the block, so that few blocks are in memory at a time. NaN
    stands for a number that is not finite, and in the whole of a block whose fit raised anything, ended its process, or
    returned something that is not real numbers of exactly this shape.
    ``n_jobs`` is a number of processes, -1 for as many as there are cores, as in joblib. An estimator that cannot be
    sent to another process, or loaded there, is refused with an `OptionError` before any rows are sent.

    On Linux every block runs in a fork of a process that has the estimator loaded and has seen no rows: what the
    estimator changes (module variables, caches, the generators of random numbers) is gone with the block, and a crash
    takes nothing with it. Elsewhere a process fits one block after the other, with the estimator loaded afresh and the
    generators seeded each time; there a module that the estimator imports must not remember rows. A process that dies
    is started again. Blocks whose process died, or was short of memory, are run once more when no other runs, so that
    it is their own doing if they die again.

    The processes end, and with them every copy of the rows, before this function returns. Starting one takes about as
    long as importing statsmodels (2 to 3 s), all start together, and a fit is charged for and happens once: that is a
    smaller price than processes that stay with what they have read.
    """
    shape = (width,) if isinstance(width, int) else tuple(width)
    setup = pickle.dumps((packed(estimator), shape, _FORKS))
    found = np.full((count, *shape), np.nan)
    workers = [_Worker(setup, shape) for _ in range(min(_processes(n_jobs), count))]
    if not workers:
        return found
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()

    def fit(place: int) -> Array | None:
        """Fit a block by the next worker that is free; None if its process died, or memory was short."""
        worker = idle.get()
        try:
            return worker.fit(frames(place))
        except MemoryError:  # the size of a block is confidential; it is tried once more, alone
            return None
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(max_workers=len(workers))  # a thread sends a block, then waits for its process
    try:
        for worker, trouble in zip(workers, pool.map(_Worker.start, workers), strict=True):
            if trouble:
                raise OptionError("model", called(estimator), f"what another process can load, but there: {trouble}")
            idle.put(worker)
        fitted: Iterable[Array | None] = pool.map(fit, range(count))
        if progress:
            from tqdm.auto import tqdm  # noqa: PLC0415  (imported when first needed)

            fitted = tqdm(fitted, total=count, desc="block fits")
        for place, values in enumerate(list(fitted)):
            again = fit(place) if values is None else values
            if again is not None:
                found[place] = again
    finally:
        for worker in workers:
            worker.end(wait=False)  # a thread that waits for one now meets the end of a stream
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.end()
    return found


def _processes(n_jobs: int) -> int:
    if type(n_jobs) is not int or n_jobs == 0:
        raise OptionError("n_jobs", n_jobs, "a number of processes, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, int(cpu_count()) + 1 + n_jobs)


class _Worker:
    """A process that fits blocks, from the caller's side.

    It is a plain Python process on two pipes rather than one of an executor: an executor's processes share the
    caller's standard error and resource tracker, which tell of crashes, and one crash ends all of them.
    """

    def __init__(self, setup: bytes, shape: tuple[int, ...]) -> None:
        self._setup, self._shape = setup, shape
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> str:
        """Start the process and wait until it has loaded the estimator; return what went wrong, or an empty text."""
        paths = [path for path in sys.path if isinstance(path, str)]
        code = f"import sys; sys.path[:] = {paths!r}; from dpinfer.kernel.workers import serve; serve()"
        with self._lock:
            if self._stopped:
                return "it was stopped"
            process = self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ENVIRONMENT},
                start_new_session=True,  # no terminal to write to, and one signal reaches all that it starts
            )
        with suppress(OSError):
            _send(process.stdin, self._setup)
            for line in process.stdout or ():  # an interpreter that greets on standard output is not misread
                if line.endswith(_READY):
                    return ""
                if _FAILED in line:
                    return line.split(_FAILED, 1)[1].decode(errors="replace").strip()
        return "the process ended"

    def fit(self, frame: pd.DataFrame) -> Array | None:
        """Return the numbers of a block; None if the process ended before it had them."""
        if self._process is None and self.start():
            self.end(stop=False)
            return None
        process = self._process
        assert process is not None
        assert process.stdout is not None
        with suppress(OSError):
            _send(process.stdin, pickle.dumps(frame, protocol=5))
            size = 1 + 8 * int(np.prod(self._shape))
            reply = process.stdout.read(size)
            if len(reply) == size:
                died = reply[:1] != _DONE
                return None if died else np.frombuffer(reply, dtype=np.float64, offset=1).reshape(self._shape)
        self.end(stop=False)
        return None

    def end(self, *, stop: bool = True, wait: bool = True) -> None:
        """End the process and what it started, and with ``stop`` never start another; any thread may call it."""
        with self._lock:
            self._stopped |= stop
            process = self._process
            if process is None:
                return
            with suppress(OSError):
                if os.name == "posix":
                    os.killpg(process.pid, signal.SIGKILL)  # not yet waited for, so the number is still its own
                else:
                    process.kill()
            if wait:
                for pipe in (process.stdin, process.stdout):
                    with suppress(OSError):
                        assert pipe is not None
                        pipe.close()
                process.wait()
                self._process = None


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pickle.dump(message, pipe, protocol=5)
    pipe.flush()


# The process in which blocks are fitted: what it reads, runs and answers


def serve() -> None:
    """Read an estimator, then blocks, from standard input; write the numbers of each block to standard output."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    warnings.simplefilter("ignore")
    logging.disable(sys.maxsize)
    try:
        sent, shape, forks = pickle.loads(pickle.load(requests))
    except EOFError:
        os._exit(1)
    try:
        estimator = pickle.loads(sent)
        if forks:
            _prepare_to_fork()
    except BaseException as error:
        replies.write(_FAILED + f"{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
        replies.flush()
        os._exit(1)
    replies.write(_READY)
    replies.flush()
    while True:
        try:
            message = pickle.load(requests)
        except (EOFError, pickle.UnpicklingError):  # the caller is gone
            os._exit(0)
        if forks:
            values = _fit_in_fork(estimator, message, shape, closing=(requests, replies))
        else:
            values = _fit_quietly(pickle.loads(sent), message, shape)
        del message
        replies.write(bytes(1 + 8 * int(np.prod(shape))) if values is None else _DONE + values.tobytes())
        replies.flush()


def _prepare_to_fork() -> None:
    """Load once what nearly every block needs, and see that a crash writes no memory to disk."""
    import gc  # noqa: PLC0415
    import resource  # noqa: PLC0415

    import statsmodels.api  # noqa: PLC0415
    import statsmodels.formula.api  # noqa: F401, PLC0415

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.collect()
    gc.freeze()


def _fit_in_fork(
    estimator: Estimator, message: bytes, shape: tuple[int, ...], *, closing: tuple[IO[bytes], ...]
) -> Array | None:
    """Fit a block in a new process that ends with it; None if that process did not end by itself.

    The numbers come back in shared memory, so that a process which the estimator leaves behind keeps nobody waiting.
    If the caller's process ends first, all end, so that no rows stay behind.
    """
    size = int(np.prod(shape))
    shared = np.frombuffer(mmap.mmap(-1, max(8 * size, 1)), dtype=np.float64, count=size)
    shared[:] = np.nan
    child = os.fork()
    if child == 0:
        try:
            for pipe in closing:
                os.close(pipe.fileno())
            shared[:] = _fit_quietly(estimator, message, shape).ravel()
        except BaseException:
            os._exit(1)
        finally:
            os._exit(0)
    with suppress(OSError):  # an old or guarded kernel: the rows stay until the block is done
        handle = os.pidfd_open(child)
        ends = select.poll()
        ends.register(handle, select.POLLIN)
        ends.register(closing[0], 0)  # its other end closes with the caller
        seen = {number for number, _ in ends.poll()}
        os.close(handle)
        if handle not in seen:
            os.killpg(0, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return shared.reshape(shape).copy() if status == 0 else None


def _fit_quietly(estimator: Estimator, message: bytes, shape: tuple[int, ...]) -> Array:
    """Fit a block; only a lack of memory, which may be the doing of other blocks, is raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        # Alike for every block: a generator that ran on from block to block would let one row, by the number of
        # draws in its block, move the values of all later blocks, and the noise covers one block only.
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        sent = pickle.loads(message)
        several = isinstance(sent, list)
        found = []
        for frame in sent if several else [sent]:
            try:
                found.append(as_floats(estimator(frame), shape[several:]))
            except MemoryError:
                raise
            except BaseException:  # the other parts have a fit nevertheless
                found.append(np.full(shape[several:], np.nan))
        return np.stack(found) if several else found[0]


def as_floats(result: object, width: int | tuple[int, ...]) -> Array:
    """Return real numbers of a shape, what is masked or not finite as NaN; raise for anything else."""
    if isinstance(result, pd.Series | pd.DataFrame):
        kinds = [result.dtype] if isinstance(result, pd.Series) else list(result.dtypes)
        if any(getattr(kind, "kind", "O") not in "biuf" for kind in kinds):
            raise TypeError
        values = result.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        found = result if isinstance(result, np.ma.MaskedArray) else np.asarray(result)
        if found.dtype.kind not in "biuf":
            raise TypeError
        values = np.ma.filled(found.astype(np.float64), np.nan)
    if values.shape != ((width,) if isinstance(width, int) else width):
        raise ValueError
    return np.where(np.isfinite(values), values, np.nan)
