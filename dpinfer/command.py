"""The command line: ``dpinfer schema draft FILE`` writes a draft of a schema. All commands end as `exit_code` says."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpinfer._version import __version__
from dpinfer.codebooks.drafts import draft
from dpinfer.errors import DPInferError
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["exit_code", "main"]


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dpinfer", description="Statistical inference under differential privacy.")
    parser.add_argument("--version", action="version", version=f"dpinfer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    schema = commands.add_parser("schema", help="schemas of files")
    actions = schema.add_subparsers(required=True, metavar="ACTION")
    said = "write a draft of a schema from names and declared types alone, to be filled in"
    one = actions.add_parser("draft", help=said, description=f"{said[0].upper()}{said[1:]}.")
    one.add_argument("file", type=Path, metavar="FILE", help="CSV, Parquet, Arrow, Stata, SPSS, Table Schema or DDI")
    told = "take the types of a Parquet or Arrow file: they were fixed before the rows came (default: blank)"
    one.add_argument("--types", choices=["declared"], help=told)
    one.add_argument("--out", type=Path, metavar="PATH", help="where to write it; a file that is there is kept")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Options; those of the command line by default.

    Returns
    -------
    int
        The exit code: 0, or 2 after an error, of which one line is printed.
    """
    options = _options(argv)
    target = options.out

    def run() -> None:
        text = draft(options.file, types=options.types)
        if target is None:
            sys.stdout.write(text)
        else:
            write_whole(target, text.encode("utf-8"), anew=True)

    return exit_code(run, f"cannot read {options.file} or write {target or 'the draft'}")


def exit_code(run: Callable[[], None], failing: str) -> int:
    """Run a command, and return its exit code: 0, or 2 after an error, of which one line is printed.

    Parameters
    ----------
    run : callable
    failing : str
        What could not be done where files cannot be read or written.
    """
    try:
        run()
    except DPInferError as error:
        message = " ".join(str(error).split())
    except OSError as error:
        message = f"{failing}: {error.strerror or error}"
    else:
        return 0
    sys.stderr.write(f"dpinfer: error: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
