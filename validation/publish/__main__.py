"""Write the measured parts of the README and of the docs from the committed outputs; ``--only`` some of them."""

from __future__ import annotations

import argparse
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import statsmodels.api as sm

import dpinfer as dpi
from validation import publish
from validation.common.pages import ROOT, SECTIONS, block

__all__ = ["SECTIONS"]
for _module in iter_modules(publish.__path__):  # each registers its sections
    if _module.name != "__main__":
        import_module(f"validation.publish.{_module.name}")


def example() -> str:
    """Run the README's example on statsmodels' fair data and return the coefficients that it prints."""
    frame = sm.datasets.fair.load_pandas().data
    schema = dpi.Schema(
        age=dpi.Real(17, 42),
        yrs_married=dpi.Real(0, 23),
        religious=dpi.Integer(1, 4),
        rate_marriage=dpi.Integer(1, 5),
    )
    with tempfile.TemporaryDirectory() as folder:
        ledger = dpi.Ledger(Path(folder) / "study.db", dataset="marriages", budget=dpi.ZCDP(1.0))
        data = dpi.PrivateData(frame, schema, ledger)
        results = dpi.ols("rate_marriage ~ age + yrs_married + religious", data).fit(dpi.ZCDP(0.3))
    return f"```text\n{results.summary().tables[1].as_text()}\n```"


def main() -> None:
    """Rewrite the measured sections, and the README's example, whose noise is drawn anew."""
    parser = argparse.ArgumentParser(prog="python -m validation.publish", description=__doc__)
    every = {(ROOT / "README.md", "table"): example, **SECTIONS}
    parser.add_argument("--only", nargs="*", metavar="SECTION", choices=[name for _, name in every])
    only = parser.parse_args().only
    for (page, name), body in every.items():
        if only is None or name in only:
            block(page, name).write(body())
            print(f"wrote {name} into {page.name}")


if __name__ == "__main__":
    main()
