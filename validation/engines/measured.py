"""One measurement in a process of its own: ``python -m validation.engines.measured QUESTION FOLDER``, as JSON.

Memory is that of Linux: VmHWM, the largest resident memory, counts pages of files that are mapped, too; RssAnon, looked
at every ten milliseconds, does not. Both are above what is resident when everything is imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

_KB = 2**10


def measured(question: str, folder: Path) -> dict[str, float]:
    """Measure a question on a folder of Parquet in a process of its own.

    Returns
    -------
    dict
        "seconds", "worked" of processors and "mapped", that part of it in which rows were read and mapped, "peak" and
        "anonymous" in MB, and "written" in bytes.
    """
    command = [sys.executable, "-m", "validation.engines.measured", question, str(folder)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _KB
    raise LookupError(name)


def _written() -> int:
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def main() -> None:
    """Measure, and print what was found."""
    from validation.engines.many_rows import asked  # noqa: PLC0415  (loaded before memory is looked at)
    from validation.engines.parts import parts_noted  # noqa: PLC0415

    question, folder = sys.argv[1:]
    ask = asked(question, folder)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # sets VmHWM to what is resident now
    before, anonymous, written = _status("VmRSS"), _status("RssAnon"), _written()
    largest, stop = 0.0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not stop.wait(0.01):
            largest = max(largest, _status("RssAnon"))

    watching = threading.Thread(target=watch)
    watching.start()
    clock, worked = time.perf_counter(), time.process_time()
    with parts_noted() as parts:
        ask()
    found = {
        "seconds": time.perf_counter() - clock,
        "worked": time.process_time() - worked,
        "mapped": sum(part.seconds for part in parts),
    }
    stop.set()
    watching.join()
    found |= {
        "peak": _status("VmHWM") - before,
        "anonymous": max(largest - anonymous, 0.0),
        "written": float(_written() - written),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
