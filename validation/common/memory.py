"""Memory that a call takes above what is held before it, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

__all__ = ["peak_memory"]

_WATCHED = """
import threading, time

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

{before}
before, peak, stop = resident(), 0.0, False

def watch():
    global peak
    while not stop:
        peak = max(peak, resident())
        time.sleep(0.0005)

thread = threading.Thread(target=watch)
thread.start()
{watched}
stop = True
thread.join()
print(peak - before)
"""


def peak_memory(before: str, watched: str) -> float:
    """Return the megabytes that running ``watched`` takes above what ``before`` leaves; both are Python."""
    code = _WATCHED.format(before=textwrap.dedent(before), watched=textwrap.dedent(watched))
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(found.stdout)
