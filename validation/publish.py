"""Write the measured parts of the README and of the docs from the committed outputs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.studies import Rules
from validation.common import OUTPUT

ROOT = Path(__file__).parent.parent


def example() -> str:
    """Run the README's example on statsmodels' fair data and return the table that it prints."""
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
    return f"```text\n{results.summary().as_text()}\n```"


def claims() -> str:
    """The headline claims, from the results of the last full run."""
    table = pd.read_csv(OUTPUT.parent / "results.csv", dtype={"ours": str, "error": str}, keep_default_na=False)
    lines = [
        "| claim | design | published | ours | Monte Carlo error | script |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.itertuples():
        ours = f"{row.ours}" if row.held else f"{row.ours}, **not held**"
        cells = (row.what, row.design, row.published, ours, row.error, f"`python -m validation.{row.script}`")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def regression() -> str:
    """Coverage and width by kind of design, for the page on regression."""
    coverage = pd.read_csv(OUTPUT / "ols_coverage.csv")
    first = coverage[coverage["run"] == "first"].copy()
    first["unit"] = first["price"].str.replace(r"\(.*", "", regex=True)
    lines = [
        "| regressors | slopes | unit | cells | least coverage | least for the contrast | "
        "largest width / oracle, kappa at least 3 | cells with kappa below 3 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (regressors, slopes, unit), group in first.groupby(["regressors", "slopes", "unit"]):
        clear = group[group["kappa"] >= Rules().kappa]
        width = f"{clear['width / oracle'].max():.3f}" if len(clear) else "no such cell"
        cells = [regressors, slopes, unit, len(group), f"{group['coverage'].min():.4f}"]
        cells += [f"{group['contrast coverage'].min():.4f}", width]
        lines.append("| " + " | ".join(map(str, [*cells, len(group) - len(clear)])) + " |")
    reruns = int((coverage["run"] == "rerun").sum())
    lines += ["", f"Cells that needed the rerun at ten times the replicates: {reruns}."]
    return "\n".join(lines)


def replace_section(path: Path, name: str, body: str) -> None:
    """Put ``body`` between the markers of a section of a file."""
    text = path.read_text(encoding="utf-8")
    start = f"<!-- {name}: made by python -m validation.publish -->"
    pattern = re.compile(re.escape(start) + r".*?" + re.escape(f"<!-- end of {name} -->"), re.DOTALL)
    if not pattern.search(text):
        message = f"{path.name} has no section {name!r}"
        raise ValueError(message)
    changed = pattern.sub(lambda _: f"{start}\n\n{body}\n\n<!-- end of {name} -->", text)
    path.write_text(changed, encoding="utf-8")
    print(f"wrote {name} into {path.name}")


def main() -> None:
    """Rewrite the measured sections."""
    replace_section(ROOT / "README.md", "table", example())
    replace_section(ROOT / "README.md", "claims", claims())
    replace_section(ROOT / "docs" / "regression.md", "coverage", regression())


if __name__ == "__main__":
    main()
