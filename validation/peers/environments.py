"""Environments of the peers, one for each, and the way to ask one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DRIVERS = Path(__file__).parent / "drivers"


@dataclass(frozen=True)
class Peer:
    """A package that is measured beside ours.

    Attributes
    ----------
    name : str
        Of its environment and driver.
    package, version : str
        As the registry knows it.
    requirements : tuple of str
        What is installed.
    """

    name: str
    package: str
    version: str
    requirements: tuple[str, ...]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("diffprivlib", "diffprivlib", "0.6.6", ("diffprivlib==0.6.6", "scikit-learn==1.6.1", "numpy<2.4")),
        Peer("opendp", "opendp", "0.16.0", ("opendp[polars,scikit-learn]==0.16.0",)),
        Peer("smartnoise", "smartnoise-sql", "1.0.10", ("smartnoise-sql==1.0.10",)),
    )
}
"""diffprivlib 0.6.6 does not import beside scikit-learn 1.9, so it is given the release of its own time."""


class PeerFailedError(RuntimeError):
    """A driver ended without an answer, or drew other rows."""


def folder_of_peers() -> Path:
    """Where the environments are: ``DPINFER_PEERS``, or build/peers."""
    return Path(os.environ.get("DPINFER_PEERS", "build/peers"))


def pythons(*, install: bool) -> dict[str, str]:
    """Return the Python of each peer whose environment holds the version that is measured.

    Parameters
    ----------
    install : bool
        Whether a missing environment is made, by ``python -m venv`` and pip. One that cannot be made is missing.
    """
    found = {}
    for name, peer in PEERS.items():
        python = folder_of_peers() / name / "bin" / "python"
        if _version(python, peer) != peer.version and install:
            _install(python, peer)
        if _version(python, peer) == peer.version:
            found[name] = str(python.absolute())
    return found


def ask(
    python: str, driver: str, population: np.ndarray, job: Mapping[str, Any], path: Path | None = None
) -> dict[str, Any]:
    """Have a driver answer a job in another Python.

    Parameters
    ----------
    python : str
    driver : str
        Name of the file in drivers.
    population : array (N, k)
    job : mapping
        What `served` reads.
    path : Path, optional
        Where else modules are found: ours.

    Returns
    -------
    dict
        "answers", a mapping for each data set; "loading", processor seconds of the import; "versions".

    Raises
    ------
    PeerFailedError
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "population.npy", population)
        asked = {**job, "population": str(folder / "population.npy")}
        (folder / "job.json").write_text(json.dumps(asked), encoding="utf-8")
        command = [python, str(DRIVERS / f"{driver}.py"), str(folder / "job.json"), str(folder / "answer.json")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(path))
        if not (folder / "answer.json").exists():
            raise PeerFailedError(f"{driver} ended with {ended.returncode}: {ended.stderr[-1000:]}")
        return json.loads((folder / "answer.json").read_text(encoding="utf-8"))


def _environment(path: Path | None = None) -> dict[str, str]:
    """One thread for everybody, and no path of ours but what is given."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS")
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    found = {"PYTHONPATH": str(path)} if path else {}
    return {**kept, **dict.fromkeys(threads, "1"), **found}


def _version(python: Path, peer: Peer) -> str | None:
    """Version of a peer in an environment; None without one."""
    if not python.exists():
        return None
    code = f"from importlib.metadata import version; print(version({peer.package!r}))"
    ended = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False, env=_environment())
    return ended.stdout.strip() or None


def _install(python: Path, peer: Peer) -> None:
    """Make an environment; say so where that fails."""
    print(f"{peer.name}: making {python.parents[1]} with {', '.join(peer.requirements)}")
    made = subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=False)
    if made.returncode == 0:
        made = subprocess.run([str(python), "-m", "pip", "install", "-q", *peer.requirements], check=False)
    if made.returncode:
        print(f"{peer.name}: not installed, so nothing is measured of it")
