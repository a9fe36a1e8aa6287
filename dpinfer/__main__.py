"""A guided tour on real data: ``python -m dpinfer`` measures, infers, and writes a report with figures."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import dpinfer as dpi
from dpinfer.command import exit_code
from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = "report.html"
"""Name of the page; a folder that holds one with the marker of pages is an earlier report."""


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Give a folder to work in, and turn it into the target when all went well.

    Parameters
    ----------
    target : Path
        A folder that does not exist yet, is empty, or holds an earlier report; files of the same names are
        then replaced.

    Yields
    ------
    Path
        An empty folder on the same disk. It is removed after an error, and the target is as it was.

    Raises
    ------
    OptionError
        If the target is something else.
    OSError
        If nothing can be written there.
    """
    from dpinfer.reporting.page import MARKER  # noqa: PLC0415  (help loads nothing of the tour)

    if not target.parent.is_dir():
        raise OptionError("out", str(target), f"a folder inside one that exists; {target.parent} does not")
    exists = target.exists()
    if exists and not target.is_dir():
        raise OptionError("out", str(target), "a folder; this is a file")
    if exists and any(not path.name.startswith(".") for path in target.iterdir()):
        page = target / PAGE
        if not page.is_file() or MARKER not in page.read_text(encoding="utf-8", errors="replace"):
            raise OptionError("out", str(target), "a new or an empty folder, or that of an earlier report")
    staging = (target if exists else target.parent) / f".{target.name}-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        yield staging
        if exists:
            for made in sorted(staging.iterdir(), key=lambda path: path.name == PAGE):
                made.replace(target / made.name)
        else:
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def run_tour(budget: dpi.ZCDP, target: Path) -> int:
    """Print all chapters as they are made, and write the report.

    Parameters
    ----------
    budget : ZCDP
        The whole budget; chapters take shares of it.
    target : Path
        The folder of the report.

    Returns
    -------
    int
        The exit code 0.

    Raises
    ------
    DPInferError
        If the target or the budget cannot be used.
    OSError
        If nothing can be written there.
    """
    from dpinfer.reporting.page import Picture, Section, page_html, paragraph, section_text  # noqa: PLC0415  (as above)
    from dpinfer.tour.chapters import CHAPTERS  # noqa: PLC0415  (as above)
    from dpinfer.tour.showing import SHOWING  # noqa: PLC0415  (as above)

    with staged_folder(target) as folder, chdir(folder):
        names: dict[str, Any] = {**SHOWING, "budget": budget}
        sections = []
        for number, (title, write) in enumerate(CHAPTERS, 1):
            print(f"[{number}/{len(CHAPTERS)}] {title}\n", flush=True)
            sections.append(Section(title, write(names)))
            print(section_text(sections[-1]), end="\n\n\n", flush=True)
        for block in (block for section in sections for block in section.blocks):
            if isinstance(block, Picture):
                Path(block.name).write_bytes(block.png)
        ledger = names["ledger"]
        lead = [
            paragraph("""Statistical inference under differential privacy, step by step on real data: what is declared,
                what is spent, what is released, and how far it can be trusted. The same steps work on confidential
                rows."""),
            paragraph(f"""Budget of the first data set: {budget.describe()}. Spent: {ledger.spent}. Remaining:
                {ledger.remaining}. Noise is drawn afresh each time, so another run gives other numbers."""),
        ]
        footer = f"Made by dpinfer {dpi.__version__}: `python -m dpinfer --budget {budget.rho:g}`"
        page = page_html("dpinfer: a guided tour", lead, sections, footer)
        Path(PAGE).write_text(page, encoding="utf-8")
    print(f"The report is {target / PAGE}; figures, release and ledger are beside it.")
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dpinfer: error: {message}\n")


def _budget(text: str) -> dpi.ZCDP:
    try:
        rho = float(text)
    except ValueError:
        rho = 0.0
    if not 0 < rho < np.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return dpi.ZCDP(rho)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tour.

    Parameters
    ----------
    argv : sequence of str, optional
        Options; those of the command line by default.

    Returns
    -------
    int
        The exit code: 0, or 2 after an error, of which one line is then printed and nothing written.
    """
    parser = _Parser(prog="python -m dpinfer", description="A guided tour of dpinfer on real data.")
    out, budget = "folder of the report (default: %(default)s)", "total zCDP budget (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=Path("dpinfer-report"), metavar="DIR", help=out)
    parser.add_argument("--budget", type=_budget, default="1.0", metavar="RHO", help=budget)
    parser.add_argument("--version", action="version", version=f"dpinfer {dpi.__version__}")
    options = parser.parse_args(argv)
    return exit_code(lambda: run_tour(options.budget, options.out), f"cannot write the report to {options.out}")


if __name__ == "__main__":
    sys.exit(main())
