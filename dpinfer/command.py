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

    import pandas as pd

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
    ended = [NOTHING]

    def run() -> None:
        ended[0] = asked.run(asked)

    target = getattr(asked, "out", None)
    writing = "" if target is None else f" or write {target}"
    return exit_code(run, f"cannot read {asked.file}{writing}") or ended[0]


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


# What each command does


def _ledger(asked: argparse.Namespace) -> int:
    from dpinfer.privacy.ledger import Ledger  # noqa: PLC0415  (a command loads what it needs)

    ledger = Ledger.open(asked.file)
    if asked.action == "show":
        _say(ledger)
    else:
        _print_frame(ledger.charges() if asked.action == "charges" else ledger.releases(), asked.csv)
    return NOTHING


def _release(asked: argparse.Namespace) -> int:
    import dpinfer as dpi  # noqa: PLC0415  (registers all procedures)

    release = dpi.read_release(asked.file)
    if asked.action == "show":
        _say(release)
        return NOTHING
    _say(release.infer(**dict(asked.option or ())).summary())
    return NOTHING


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


def _print_frame(frame: pd.DataFrame, csv: bool) -> None:
    if csv:
        sys.stdout.write(frame.to_csv())
    else:
        _say(frame.to_string() if len(frame) else "nothing so far")


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")


# What can be asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dpinfer", description="Statistical inference under differential privacy.")
    parser.add_argument("--version", action="version", version=f"dpinfer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    ledger = _actions(commands, "ledger", "what a ledger file says")
    _action(ledger, "show", "print the budget, what is spent of it and what remains", _ledger, "a ledger")
    for name, said in (("charges", "print all charges"), ("releases", "print the releases that the ledger keeps")):
        one = _action(ledger, name, said, _ledger, "a ledger")
        one.add_argument("--csv", action="store_true", help="as comma-separated values")

    release = _actions(commands, "release", "what a saved release says")
    _action(release, "show", "print what was measured, at what price, with what noise", _release, "a release")
    one = _action(
        release, "infer", "infer from it, and print the summary: free, and without rows", _release, "a release"
    )
    told = "an option of the inference, such as inference=wald or target=data; may be repeated"
    one.add_argument("--option", type=_pair, action="append", metavar="NAME=VALUE", help=told)

    schema = _actions(commands, "schema", "schemas of files")
    said = "write a draft of a schema from names and declared types alone, to be filled in"
    files = "CSV, Parquet, Arrow, Stata, SPSS, Table Schema or DDI"
    one = _action(schema, "draft", said, _draft, files)
    told = "take the types of a Parquet or Arrow file: they were fixed before the rows came (default: blank)"
    one.add_argument("--types", choices=["declared"], help=told)
    one.add_argument("--out", type=Path, metavar="PATH", help="where to write it; a file that is there is kept")
    one = _action(schema, "check", "compare a codebook with the declared types of a table", _check, "a codebook")
    one.add_argument(
        "table", type=Path, metavar="TABLE", help="Parquet or Arrow, whose types were fixed before the rows"
    )

    said = "try to show that what a release asked for gives away more than its price states"
    one = commands.add_parser("audit", help=said, description=_sentence(said))
    one.add_argument("file", type=Path, metavar="FILE", help="a release")
    one.add_argument("--runs", type=int, metavar="N", help="draws on each of two neighbours, at least 200")
    one.set_defaults(run=_audit)
    return parser


def _actions(commands: Any, name: str, said: str) -> Any:
    return commands.add_parser(name, help=said, description=_sentence(said)).add_subparsers(
        required=True, metavar="ACTION", dest="action"
    )


def _action(actions: Any, name: str, said: str, run: Command, file: str) -> argparse.ArgumentParser:
    one: argparse.ArgumentParser = actions.add_parser(name, help=said, description=_sentence(said))
    one.add_argument("file", type=Path, metavar="FILE", help=file)
    one.set_defaults(run=run)
    return one


def _sentence(said: str) -> str:
    return f"{said[0].upper()}{said[1:]}."


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
