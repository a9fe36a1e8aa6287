"""The command line: ``dpinfer ledger``, ``release``, ``schema`` and ``audit``. No command reads a row of a table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpinfer._version import __version__
from dpinfer.errors import DPInferError
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Command = Callable[[argparse.Namespace], int]

__all__ = ["exit_code", "main"]

FOUND, NOTHING = 1, 0
"""Exit codes of commands that look for something wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Options; those of the command line by default.

    Returns
    -------
    int
        The exit code: 0; 1 where `schema check` or `audit` found something wrong; or 2 after an error, of which one
        line is printed.
    """
    asked = _parser().parse_args(argv)
    target = getattr(asked, "out", None)
    writing = "" if target is None else f" or write {target}"
    return exit_code(lambda: asked.run(asked), f"cannot read {asked.file}{writing}")


def exit_code(run: Callable[[], int], failing: str) -> int:
    """Run a command, and return its exit code: its own, or 2 after an error, of which one line is printed.

    Parameters
    ----------
    run : callable
    failing : str
        What could not be done where files cannot be read or written.
    """
    try:
        return run()
    except DPInferError as error:
        message = " ".join(str(error).split())
    except OSError as error:
        message = f"{failing}: {error.strerror or error}"
    sys.stderr.write(f"dpinfer: error: {message}\n")
    return 2


# What each command does


def _ledger(asked: argparse.Namespace) -> int:
    from dpinfer.privacy.ledger import Ledger  # noqa: PLC0415  (a command loads what it needs)

    ledger = Ledger.open(asked.file)
    if asked.action == "show":
        return _say(ledger)
    frame = ledger.charges() if asked.action == "charges" else ledger.releases()
    if not asked.csv:
        return _say(frame.to_string() if len(frame) else "nothing so far")
    sys.stdout.write(frame.to_csv())
    return NOTHING


def _release(asked: argparse.Namespace) -> int:
    import dpinfer as dpi  # noqa: PLC0415  (registers all procedures)

    release = dpi.read_release(asked.file)
    return _say(release if asked.action == "show" else release.infer(**dict(asked.option or ())).summary())


def _draft(asked: argparse.Namespace) -> int:
    from dpinfer.entry.codebooks import draft  # noqa: PLC0415

    text = draft(asked.file, types=asked.types)
    if asked.out is None:
        sys.stdout.write(text)
    else:
        write_whole(asked.out, text.encode("utf-8"), anew=True)
    return NOTHING


def _check(asked: argparse.Namespace) -> int:
    from dpinfer.entry.codebooks import declared_types, read_codebook  # noqa: PLC0415

    found = read_codebook(asked.file).check(declared_types(asked.table))
    _say(found)
    return NOTHING if found else FOUND


def _audit(asked: argparse.Namespace) -> int:
    import dpinfer as dpi  # noqa: PLC0415
    from dpinfer.procedures.procedure import read_question  # noqa: PLC0415

    release = dpi.read_release(asked.file)
    question = read_question(release)
    runs: int | Literal["auto"] = "auto" if asked.runs is None else asked.runs
    found = dpi.audit(question, release.schema, release.cost.price, neighbors=release.neighbors, runs=runs)
    _say(found)
    return NOTHING if found.passed else FOUND


def _say(what: object) -> int:
    sys.stdout.write(f"{what}\n")
    return NOTHING


# What can be asked


_GROUPS = {"ledger": "what a ledger file says", "release": "what a saved release says", "schema": "schemas of files"}

_FILES = "CSV, Parquet, Arrow, Stata, SPSS, Table Schema or DDI"
_COMMANDS: tuple[tuple[str, str, Command, str], ...] = (
    ("ledger show", "print the budget, what is spent of it and what remains", _ledger, "a ledger"),
    ("ledger charges", "print all charges", _ledger, "a ledger"),
    ("ledger releases", "print the releases that the ledger keeps", _ledger, "a ledger"),
    ("release show", "print what was measured, its privacy loss and its noise", _release, "a release"),
    ("release infer", "infer from it, and print the summary: free, and without rows", _release, "a release"),
    ("schema draft", "write a draft of a schema from names and declared types alone, to be filled in", _draft, _FILES),
    ("schema check", "compare a codebook with the declared types of a table", _check, "a codebook"),
    ("audit", "test whether the question of a release leaks more than its stated privacy loss", _audit, "a release"),
)
"""Every command, what it does, the function that does it, and what its file is."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dpinfer", description="Statistical inference under differential privacy.")
    parser.add_argument("--version", action="version", version=f"dpinfer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def added(under: Any, name: str, said: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = under.add_parser(name, help=said, description=f"{said[0].upper()}{said[1:]}.")
        return one

    actions: dict[str, Any] = {"": commands}
    for name, said in _GROUPS.items():
        group = added(commands, name, said)
        actions[name] = group.add_subparsers(required=True, metavar="ACTION", dest="action")
    made = {}
    for name, said, run, file in _COMMANDS:
        group_name, _, action = name.rpartition(" ")
        made[name] = added(actions[group_name], action, said)
        made[name].add_argument("file", type=Path, metavar="FILE", help=file)
        made[name].set_defaults(run=run)
    for name in ("ledger charges", "ledger releases"):
        made[name].add_argument("--csv", action="store_true", help="as comma-separated values")
    told = "an option of the inference, such as inference=wald or target=data; may be repeated"
    made["release infer"].add_argument("--option", type=_pair, action="append", metavar="NAME=VALUE", help=told)
    told = "take the types of a Parquet or Arrow file: they were fixed before the rows came (default: blank)"
    made["schema draft"].add_argument("--types", choices=["declared"], help=told)
    told = "where to write it; a file that is there is kept"
    made["schema draft"].add_argument("--out", type=Path, metavar="PATH", help=told)
    told = "Parquet or Arrow, whose types were fixed before the rows"
    made["schema check"].add_argument("table", type=Path, metavar="TABLE", help=told)
    made["audit"].add_argument("--runs", type=int, metavar="N", help="draws on each of two neighbours, at least 200")
    return parser


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, int(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())
