"""Judge every claim on another seed: ``python -m validation.publish.fresh --seed 7 --replicates 500``.

Runs ``python -m validation --full`` with this seed, which goes on where it was stopped, and keeps what it found in
validation/output/fresh_seed.csv.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from validation.publish.claims import FRESH, read_results


def main() -> int:
    """Run all scripts, and keep the judged claims with their seed."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.publish.fresh", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replicates", type=int, required=True, help="of every cell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--collect", action="store_true", help="keep what has been run so far, and run nothing")
    read = parser.parse_args()
    command = ["--full", f"--seed={read.seed}", f"--replicates={read.replicates}", f"--jobs={read.jobs}"]
    if not read.collect:
        subprocess.run([sys.executable, "-m", "validation", *command], check=False)  # failures are what is counted
    table = read_results(Path("build", f"seed-{read.seed}", "results.csv"))
    table.insert(0, "seed", read.seed)
    table.to_csv(FRESH, index=False)
    print(f"wrote {FRESH}; publish it with python -m validation.publish")
    return 0


if __name__ == "__main__":
    sys.exit(main())
