"""Ours, in a process of its own as the peers are, where time is measured: with a ledger and the kernel's samplers."""

import time

from served import serve

import dpinfer  # noqa: F401

READY = time.process_time()
"""What comes after is of the benchmark, not of the library."""

from validation.peers.peer_designs import designs  # noqa: E402
from validation.peers.peer_methods import OURS, Price, private, told  # noqa: E402


def ours(rows, job):
    design, method = designs()[job["design"]], OURS[job["neighbors"]]
    price = Price(job["measure"], job["amount"])
    return told(design, private(method, design, rows, price), price)


if __name__ == "__main__":
    designs()
    serve({"ours": ours}, ("numpy",), READY)
