"""The process in which blocks are fitted: what it reads, runs and answers; see `dpinfer.kernel.workers`."""

from __future__ import annotations

import logging
import mmap
import os
import pickle
import random
import select
import signal
import sys
import warnings
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Estimator = Callable[[Any], Any]

__all__ = ["DONE", "FAILED", "READY", "as_floats", "receive", "send", "serve"]

READY, FAILED = b"dpinfer: ready\n", b"dpinfer: failed: "
"""Ends of the line with which a process answers an estimator."""

DONE = b"1"
"""First byte of the answer to a block; numbers follow. Another byte: the block's own process died."""

_LENGTH_BYTES = 8


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a message and its length."""
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read a message; None at the end of the stream."""
    header = pipe.read(_LENGTH_BYTES)
    if len(header) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(header, "little")
    message = pipe.read(length)
    return message if len(message) == length else None


def serve() -> None:
    """Read an estimator, then blocks, from standard input; write the numbers of each block to standard output."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    warnings.simplefilter("ignore")
    logging.disable(sys.maxsize)
    setup = receive(requests)
    if setup is None:
        os._exit(1)
    packed, shape, forks = pickle.loads(setup)
    try:
        estimator = pickle.loads(packed)
        if forks:
            _prepare_to_fork()
    except BaseException as error:
        replies.write(FAILED + f"{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
        replies.flush()
        os._exit(1)
    replies.write(READY)
    replies.flush()
    while (message := receive(requests)) is not None:
        if forks:
            values = _fit_in_fork(estimator, message, shape, closing=(requests, replies))
        else:
            values = _fit_quietly(pickle.loads(packed), message, shape)
        del message
        replies.write(bytes(1 + 8 * int(np.prod(shape))) if values is None else DONE + values.tobytes())
        replies.flush()
    os._exit(0)


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
    """
    size = int(np.prod(shape))
    memory = mmap.mmap(-1, max(8 * size, 1))
    shared = np.frombuffer(memory, dtype=np.float64, count=size)
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
    _wait(child, closing[0])
    _, status = os.waitpid(child, 0)
    return shared.reshape(shape).copy() if status == 0 else None


def _wait(child: int, requests: IO[bytes]) -> None:
    """Wait for the end of a process; if the caller's comes first, end all, so that no rows stay behind."""
    with suppress(OSError):  # an old or guarded kernel: the rows stay until the block is done
        handle = os.pidfd_open(child)
        ends = select.poll()
        ends.register(handle, select.POLLIN)
        ends.register(requests, 0)  # its other end closes with the caller
        seen = {number for number, _ in ends.poll()}
        os.close(handle)
        if handle not in seen:
            os.killpg(0, signal.SIGKILL)


def _fit_quietly(estimator: Estimator, message: bytes, shape: tuple[int, ...]) -> Array:
    """Fit a block; only a lack of memory, which may be the doing of other blocks, is raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        # Alike for every block: a generator that ran on from block to block would let one row, by the number of
        # draws in its block, move the values of all later blocks, and the noise covers one block only.
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            return as_floats(estimator(pickle.loads(message)), shape)
        except MemoryError:
            raise
        except BaseException:
            return np.full(shape, np.nan)


def as_floats(result: object, width: int | tuple[int, ...]) -> Array:
    """Return real numbers of a shape, what is masked or not finite as NaN; raise for anything else."""
    shape = (width,) if isinstance(width, int) else width
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
    if values.shape != shape:
        raise ValueError
    return np.where(np.isfinite(values), values, np.nan)
