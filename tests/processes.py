"""Scripts that tests run in interpreters of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpinfer

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def start(code, *arguments, folder=None):
    """Start a script with these arguments, in a folder, on one thread."""
    environment = os.environ | {"PYTHONPATH": str(Path(dpinfer.__file__).parents[1])}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)
