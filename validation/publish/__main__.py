"""Write the measured parts of the README and of the docs from the committed outputs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.studies import Rules
from validation.common.outputs import OUTPUT
from validation.people import people_report as people
from validation.publish.density import density
from validation.publish.quantiles import quantiles, selection
from validation.scripts import module_of

ROOT = Path(__file__).parents[2]


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
        cells = (row.what, row.design, row.published, ours, row.error, f"`python -m {module_of(row.script)}`")
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


def by_design(name: str) -> str:
    """Coverage and width by design, from a table of judged cells."""
    table = pd.read_csv(OUTPUT / f"{name}.csv")
    first = table[table["run"] == "first"]
    last = table.drop_duplicates(["design", "bounds", "neighbors", "n", "privacy", "term"], keep="last")
    lines = [
        "| design | cells | least coverage | of them with kappa at least 3 | their largest width / oracle | "
        "flagged, kappa below 3 | flagged, at least 3 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (design, bounds), group in last.groupby(["design", "bounds"], sort=False):
        clear = group[group["kappa"].fillna(float("inf")) >= Rules().kappa]
        rest = group.drop(clear.index)
        cells = [
            design if bounds == "as declared" else f"{design}, {bounds} bounds",
            len(group),
            f"{group['coverage'].min():.4f}",
            len(clear),
            f"{clear['width / oracle'].max():.3f}" if len(clear) else "no such cell",
            f"{rest['flagged'].mean():.0%}" if len(rest) else "no such cell",
            f"{clear['flagged'].mean():.0%}" if len(clear) else "no such cell",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    again = table[table["run"] == "rerun"]
    failed = last[~last["held"]]
    lines += [
        "",
        f"{len(first)} cells and quantities at {int(first['replicates'].iloc[0]):,} replicates, made by "
        f"`python -m {module_of(name)}`. Rerun at ten times the replicates: {len(again)}; not held in the end: "
        f"{len(failed)}.",
    ]
    return "\n".join(lines)


def proportions() -> str:
    """Exact coverage and mean width of the exact interval, a row per number of rows and proportion."""
    table = pd.read_csv(OUTPUT / "proportion_exact.csv")
    prices = sorted(table["epsilon"].unique())
    lines = [
        "| n | theta | " + " | ".join(f"eps = {price:g}" for price in prices) + " |",
        "| --- | --- | " + " | ".join("---" for _ in prices) + " |",
    ]
    for (n, theta), group in table.groupby(["n", "theta"]):
        cells = group.set_index("epsilon").loc[prices]
        shown = [
            f"{row.coverage:.4f} / {row.width:.3f}"
            for row in cells.rename(columns={"mean width": "width"}).itertuples()
        ]
        lines.append(f"| {n} | {theta:g} | " + " | ".join(shown) + " |")
    return "\n".join(
        [
            *lines,
            "",
            "Exact coverage / mean width of 95% intervals; `python -m validation.descriptions.proportion_exact`.",
        ]
    )


def published() -> str:
    """Ours beside the best published intervals."""
    table = pd.read_csv(OUTPUT / "expfam_published.csv")
    table = table[~table["design"].str.contains("90%")]
    lines = [
        "| design | n | parameter | coverage | mean width | best published (coverage / width) | narrower by |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.rename(columns={"at most": "most"}).itertuples():
        known = str(row.published).split("/")[-1].replace("width", "").strip()
        cells = [row.design, f"{row.n:,}", row.parameter, f"{row.coverage:.4f}", f"{row.width:.3f}", row.published]
        lines.append("| " + " | ".join(map(str, [*cells, f"{1 - row.width / float(known):.1%}"])) + " |")
    return "\n".join(
        [*lines, "", "All under replace_one with a public n; `python -m validation.families.expfam_published`."]
    )


def tests() -> str:
    """Largest sizes of all tests, then the powers that are known."""
    table = pd.read_csv(OUTPUT / "chisquare_size.csv")
    last = table.drop_duplicates(list(table.columns[:8]), keep="last")
    lines = [
        "| test | designs | largest size at .05 | at .01 | smallest at .05 | designs below .04 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (test, kind), group in last.groupby(["test", "statistic"], sort=False):
        at = [group[group["level"] == level]["size"] for level in (0.05, 0.01)]
        lines.append(_sizes(f"{test}, {kind}", *at))
    for test, group in pd.read_csv(OUTPUT / "mean_tests.csv").groupby("test", sort=False):
        lines.append(_sizes(test, group["size at 0.05"], group["size at 0.01"]))
    joint = pd.read_csv(OUTPUT / "regression_tests.csv")
    lines.append(_sizes("regression, simulated null", joint["size at 0.05"], joint["size at 0.01"]))
    lines += [
        "",
        f"Tables: {int(table['replicates'].iloc[0]):,} replicates; d = 2, 4, 10, 50; 2x2, 3x4 and 5x5; uniform cells, "
        "and one of expectation 2; n from 100 to 100,000; rho from .00125 to .5 and eps of .1 and 1; both relations. "
        f"Designs run again at ten times the replicates: {int((table['run'] == 'rerun').sum()) // 4}. Means: 10,000 "
        f"replicates; regression: {int(joint['replicates'].iloc[0]):,}. 199 draws behind each p-value. Made by `python "
        "-m validation.tests.chisquare_size`, `validation.tests.mean_tests` and "
        "`validation.tests.regression_tests`; every design, with "
        "the size that would be too large, is in `validation/output/`.",
        "",
        _picture("P-values under the null hypothesis against uniform quantiles", "chisquare_pvalues"),
        "",
        "| design | n | rho | projected | Pearson | without privacy |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    powers = pd.read_csv(OUTPUT / "chisquare_power.csv").rename(columns={"without privacy": "ordinary"})
    for row in powers.itertuples():
        cells = [row.design, f"{row.n:,}", f"{row.rho:g}"]
        cells += [f"{power:.3f}" for power in (row.projected, row.pearson, row.ordinary)]
        lines.append("| " + " | ".join(cells) + " |")
    covered = pd.read_csv(OUTPUT / "association.csv").groupby("quantity", sort=False)["coverage"]
    least = "; ".join(f"{name} {found.min():.4f} in {found.size} cells" for name, found in covered)
    return "\n".join(
        [
            *lines,
            "",
            "Power at .05 under replace_one with a public n: `python -m validation.tests.chisquare_power`, "
            "which also draws "
            "what earlier statistics lose.",
            "",
            _picture("Power that earlier statistics lose against the projected one", "chisquare_power_lost"),
            "",
            f"Least coverage of 95% intervals (`python -m validation.tests.association`): {least}.",
            "",
            _picture("Sizes and powers of the tests of means beside the ordinary ones", "mean_tests"),
        ]
    )


def aggregate() -> str:
    """Error, coverage and width of sample-and-aggregate, a row per design and price, and the figures."""
    table = pd.read_csv(OUTPUT / "aggregate_coverage.csv")
    keys = ["design", "n", "blocks", "price", "aggregator", "correction"]
    lines = [
        "| model | n | blocks | price | blocks bounded by | RMSE over that of blocks without noise | least coverage | "
        "mean width / oracle, signal at least 3 | flagged |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, group in table.groupby(keys, sort=False):
        design, n, blocks, price, bounded, correction = key
        clear = group[group["kappa"] >= Rules().kappa]["width / oracle"].dropna()
        ratio = (group["RMSE"] / group["without noise"]).to_numpy()
        cells = [
            design + ("" if correction == "half_blocks" else ", **not corrected**"),
            f"{n:,}",
            blocks,
            f"`{price}`",
            "place and spread" if bounded == "winsorized" else "the region alone",
            f"{ratio.min():.2f}-{ratio.max():.2f}",
            f"{group['coverage'].min():.4f}",
            f"{clear.max():.3f}" if len(clear) else "no such parameter",
            f"{group['flagged'].max():.0%}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(
        [
            *lines,
            "",
            f"{int(table['replicates'].max()):,} replicates, {int(table['replicates'].min()):,} of median regression "
            "and multinomial logit; `python -m validation.blocks.aggregate_coverage`, which judges the "
            "corrected ones; every "
            "parameter is in `validation/output/aggregate_coverage.csv`.",
            "",
            _picture("Coverage and error of sample-and-aggregate", "aggregate_coverage"),
            "",
            "Bias of a block against its rows, plain and corrected (`python -m validation.blocks.aggregate_bias`):",
            "",
            _picture(
                "Bias of a block's estimate of order 1/m, and of order 1/m squared when corrected", "aggregate_bias"
            ),
            "",
            "Smith's (2008) theorem: the estimator is efficient where epsilon n^(1/4) grows without bound. Mean "
            "squared error over the Cramer-Rao bound, with the square root of n blocks and with as many as bias allows "
            "(`python -m validation.blocks.aggregate_efficiency`):",
            "",
            _picture(
                "Mean squared error over the Cramer-Rao bound as n grows and epsilon shrinks", "aggregate_efficiency"
            ),
            "",
            "Time (`python -m validation.speed.aggregate_speed`):",
            "",
            _picture("Seconds for 1,500 fits on a million rows", "aggregate_speed"),
        ]
    )


def bootstrap() -> str:
    """Exact cost, the source's intervals and ours, coverage by design, and the direct release beside it."""
    cost, extra = pd.read_csv(OUTPUT / "bootstrap_cost.csv"), pd.read_csv(OUTPUT / "bootstrap_cost_noise.csv")
    added = extra[(extra["mu"] == 1) & (extra["replicates"] == 200)].iloc[0]
    source = pd.read_csv(OUTPUT / "bootstrap_source.csv")
    cover, direct = (
        pd.read_csv(OUTPUT / "bootstrap_coverage.csv"),
        pd.read_csv(OUTPUT / "bootstrap_coverage_direct.csv"),
    )
    costs = [
        "| mu | B | claimed epsilon | asymptotic, 2 - 2/e | exact | ledger mu |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {mu:g} | {size:.0f} | {claimed:.3f} | {limit:.3f} | {exact:.3f} | {ledger:.4f} |"
            for mu, size, claimed, limit, exact, ledger in cost.to_numpy()
        ),
    ]
    relative = "of the conservative one's"
    intervals = [
        "| interval | coverage there | stated | mean width over the conservative one's |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['interval']} | {row['coverage']:.4f} | {_or_none(row['stated'], '.3f')} | {row[relative]:.3f} |"
            for _, row in source[source["run"] == "all"].iterrows()
        ),
    ]
    last = cover.drop_duplicates(["design", "n", "replicates B", "price"], keep="last")
    cells = [
        "| design | n | B | price | level | runs | coverage | mean width / oracle | sampling / noise of one | "
        "flagged | `ols` covers |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['design']} | {row['n']:,} | {row['replicates B']} | `{row['price']}` | {row['level']:g} | "
            f"{row['runs']:,} | "
            f"{row['coverage']:.4f}{'' if row['held'] else ', **not held**'} | {row['width / oracle']:.3f} | "
            f"{row['sampling / noise']:.2f} | {row['flagged']:.0%} | {_or_none(row['dpi.ols covers'], '.3f')} |"
            for _, row in last.iterrows()
        ),
    ]
    beside = [
        "| estimate | n | error over that of the direct release | width over it |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['estimate']} | {row['n']:,} | {row['RMSE ratio']:.2f} | {row['width ratio']:.2f} |"
            for _, row in direct.iterrows()
        ),
    ]
    runs = int(last["runs"].max())
    return "\n".join(
        [
            "Epsilon at delta = 1e-6 of B replicates with root-B times the noise of one release of mu, double or "
            "nothing (`python -m validation.bootstrap.bootstrap_cost`, which also checks the composed delta "
            "by simulation and "
            "attacks the weights). The noise that the true price adds at mu = 1, B = 200: "
            f"{added['alone']:.2%} in standard deviation alone, {added['ledger entry']:.2%} as a ledger entry.",
            "",
            *costs,
            "",
            _picture("Exact, claimed and asymptotic epsilon against the number of replicates", "bootstrap_cost"),
            "",
            "The setting of Brawner and Honaker's figures 6 to 9, on ages from a beta distribution with standard "
            f"deviation 17.58 (`python -m validation.bootstrap.bootstrap_source`, {int(source['replicates'].max()):,} "
            "replicates; their releases are not private at the stated cost):",
            "",
            *intervals,
            "",
            _picture("Figures 6 to 9 of the source redrawn, with the default interval", "bootstrap_source"),
            "",
            f"Coverage of the default interval, end to end (`python -m "
            f"validation.bootstrap.bootstrap_coverage`, up to {runs:,} "
            "replicates a design; the same for one number by quadrature in the figure). `ols`, which takes errors to "
            "spread equally, is fitted to the same rows at the same price:",
            "",
            *cells,
            "",
            _picture("Coverage and width of the bootstrap's intervals, and direct releases", "bootstrap_coverage"),
            "",
            "The same estimate by the direct release at the same price (mu = 1, B = 200):",
            "",
            *beside,
            "",
            "Time and memory for a million rows (`python -m validation.speed.bootstrap_speed`):",
            "",
            _picture("Seconds of one pass and of 200 replicates over a million rows", "bootstrap_speed"),
        ]
    )


def _or_none(value: float, style: str) -> str:
    return "" if pd.isna(value) else format(value, style)


def _sizes(name: str, at_05: pd.Series, at_01: pd.Series) -> str:
    cells = [name, str(len(at_05)), f"{at_05.max():.4f}", f"{at_01.max():.4f}", f"{at_05.min():.4f}"]
    return "| " + " | ".join([*cells, str(int((at_05 < 0.04).sum()))]) + " |"


def _picture(words: str, name: str) -> str:
    return f"![{words}](../validation/output/{name}.png)"


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
    replace_section(ROOT / "docs" / "descriptions.md", "descriptions", by_design("descriptions_coverage"))
    replace_section(ROOT / "docs" / "descriptions.md", "proportions", proportions())
    replace_section(ROOT / "docs" / "exponential-families.md", "families", by_design("expfam_coverage"))
    replace_section(ROOT / "docs" / "exponential-families.md", "published", published())
    replace_section(ROOT / "docs" / "tests.md", "tests", tests())
    replace_section(ROOT / "docs" / "sample-aggregate.md", "aggregate", aggregate())
    replace_section(ROOT / "docs" / "bootstrap.md", "bootstrap", bootstrap())
    replace_section(ROOT / "docs" / "people.md", "people", people.section())
    replace_section(ROOT / "docs" / "selection.md", "selection", selection())
    replace_section(ROOT / "docs" / "quantiles.md", "quantiles", quantiles())
    replace_section(ROOT / "docs" / "density.md", "density", density())


if __name__ == "__main__":
    main()
