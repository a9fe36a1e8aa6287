"""A guided tour on real data: ``python -m dpinfer`` measures, infers, and writes a report with figures."""

from __future__ import annotations

import argparse
import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

import dpinfer as dpi
from dpinfer.command import exit_code
from dpinfer.reporting.page import Picture, Section, Text, page_html, section_text
from dpinfer.tour.chapters import CHAPTERS
from dpinfer.tour.folder import PAGE, staged_folder
from dpinfer.tour.session import Tour

if TYPE_CHECKING:
    from collections.abc import Sequence


def _write_report(tour: Tour, sections: Sequence[Section]) -> None:
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, Picture):
            Path(block.name).write_bytes(block.png)
    lead = [
        Text("""Statistical inference under differential privacy, step by step on real data: what is declared,
            what is paid, what comes out, and how far it can be trusted. The same steps work on confidential
            rows."""),
        Text(f"""Budget of the first data set: {tour.budget.describe()}. Spent: {tour.spent}. Remaining:
            {tour["ledger"].remaining}. Noise is drawn afresh each time, so another run gives other numbers."""),
    ]
    footer = f"Made by dpinfer {dpi.__version__}: `python -m dpinfer --budget {tour.budget.rho:g}`"
    page = page_html("dpinfer: a guided tour", lead, sections, footer)
    Path(PAGE).write_text(page, encoding="utf-8")


def run_tour(budget: dpi.ZCDP, target: Path) -> None:
    """Print all chapters as they are made, and write the report.

    Parameters
    ----------
    budget : ZCDP
        The whole budget; chapters take shares of it.
    target : Path
        The folder of the report.

    Raises
    ------
    DPInferError
        If the target or the budget cannot be used.
    OSError
        If nothing can be written there.
    """
    with staged_folder(target) as folder, chdir(folder):
        tour, sections = Tour(budget), []
        for number, (title, write) in enumerate(CHAPTERS, 1):
            print(f"[{number}/{len(CHAPTERS)}] {title}\n", flush=True)
            sections.append(Section(title, write(tour)))
            print(section_text(sections[-1]), end="\n\n\n", flush=True)
        _write_report(tour, sections)
    print(f"The report is {target / PAGE}; figures, release and ledger are beside it.")


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


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python -m dpinfer", description="A guided tour of dpinfer on real data.")
    out, budget = "folder of the report (default: %(default)s)", "total zCDP budget (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=Path("dpinfer-report"), metavar="DIR", help=out)
    parser.add_argument("--budget", type=_budget, default="1.0", metavar="RHO", help=budget)
    parser.add_argument("--version", action="version", version=f"dpinfer {dpi.__version__}")
    return parser.parse_args(argv)


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
    options = _options(argv)
    return exit_code(lambda: run_tour(options.budget, options.out), f"cannot write the report to {options.out}")


if __name__ == "__main__":
    sys.exit(main())
