import html
import pickle
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.privacy import GDP, ZCDP, ApproxDP, PureDP
from dpinfer.privacy.accounting import Cost
from dpinfer.procedures.combine import combine
from dpinfer.release.release import CombinedRelease, SeveralCosts
from dpinfer.reporting.summary_table import SummaryTable, summary_table
from tests.linear import gram_ols


@dataclass(frozen=True)
class Named:
    cost: object
    neighbors: str = "add_remove"
    charge_ids: tuple[str, ...] = ("c-1",)
    public: bool = False
    dataset: str | None = "survey"
    unit: str = "one row"


def zcdp(rho):
    return Cost(ZCDP(rho), rho=Fraction(str(rho)))


def pure(epsilon):
    exact = Fraction(str(epsilon))
    return Cost(PureDP(epsilon), pure_epsilon=exact, rho=exact**2 / 2)


def paid(charge, rho=0.1, **fields):
    return Named(zcdp(rho), charge_ids=() if charge is None else (charge,), **fields)


def flat(table):
    return " ".join(str(table).split())


def totals(table):
    return [note for note in table.notes if note.startswith("Total")]


@pytest.fixture(scope="module")
def logit(case):
    rng = np.random.default_rng(3)
    outcome = pd.Series((rng.uniform(size=len(case.design)) < 0.4).astype(float), name="employed")
    return sm.Logit(outcome, case.design.iloc[:, :2]).fit(disp=0)


# Cells


def test_estimates_and_errors_are_those_of_the_results(case, logit):
    private = case.noisy(release=paid("a"))
    table = summary_table([private, case.ols, logit], float_format="%.6f")
    assert list(table.frame.columns) == ["income (1)", "income (2)", "employed"]
    assert table.frame.index.names == ["term", "line"]
    for name, result in zip(table.frame.columns, (private, case.ols, logit), strict=True):
        for term in result.params.index:
            assert table.frame.loc[(term, "coef"), name] == f"{result.params[term]:.6f}"
            assert table.frame.loc[(term, "std err"), name] == f"({result.bse[term]:.6f})"
    assert table.frame.loc[("educ", "coef"), "employed"] == table.frame.loc[("educ", "std err"), "employed"] == ""


def test_terms_come_in_order_of_first_appearance(case, logit):
    table = summary_table([logit, case.ols])
    terms = table.frame.xs("coef", level="line").index
    assert list(terms) == ["Intercept", "age", "educ", "C(race)[T.b]"]


def test_intervals_and_their_infinite_ends(case, logit):
    private = case.noisy(release=paid("a")).with_inference("score")
    table = summary_table([private, logit], show="conf_int", alpha=0.1, float_format="%.5f", names=["p", "o"])
    ends = logit.conf_int(0.1).loc["age"]
    assert table.frame.loc[("age", "conf_int"), "o"] == f"[{ends[0]:.5f}, {ends[1]:.5f}]"
    assert table.frame.loc[("age", "conf_int"), "p"] == "[-inf, inf]"
    assert re.fullmatch(r"\[-?\d\.\d{5}, inf\]", table.frame.loc[("educ", "conf_int"), "p"])
    assert "90% confidence intervals in brackets" in table.notes[0]
    assert "infinite limit" in flat(table)
    assert "infinite limit" not in flat(summary_table([case.noisy(release=paid("a")), logit], show="conf_int"))


def test_facts_below_the_coefficients(case, logit):
    private = case.noisy(release=paid("a"), nobs=1234.4, nobs_is_public=False)
    facts = summary_table([private, logit, case.ols]).frame.xs("", level="line")
    assert facts.iloc[:, 0].to_dict() == {
        "Model": "Private OLS",
        "N": "1,234 (noisy)",
        "Guarantee": "ZCDP(rho=0.1)",
        "Neighbours": "add_remove",
        "Noise share": "75%",
        "Inference": "wald",
        "R-squared": f"{case.ols.rsquared:.3f}",
    }
    assert facts["employed"].to_dict() == {
        "Model": "Logit",
        "N": "400",
        "Guarantee": "none (ordinary)",
        "Neighbours": "",
        "Noise share": "",
        "Inference": "wald",
        "R-squared": "",
    }
    assert facts.loc["R-squared"].iloc[2] == f"{case.ols.rsquared:.3f}"


@pytest.mark.parametrize(
    ("shares", "shown"),
    [((0.02, 0.41), "2%-41%"), ((0.0, 0.3), "0%-30%"), ((0.001, 0.5), "<1% to 50%"), ((0.999, 1.0), ">99% to 100%")],
)
def test_noise_share_is_a_range(case, shares, shown):
    share = np.array([shares[0], *[sum(shares) / 2] * 2, shares[1]])
    covariance = np.diag(np.ones(4))
    result = case.results(
        release=paid("a"), cov_noise=covariance * share, cov_sampling=covariance * (1 - share), params=np.ones(4)
    )
    assert summary_table([result]).frame.loc[("Noise share", "")].tolist() == [shown]


def test_facts_that_nobody_has_are_left_out(case, logit):
    facts = summary_table([logit]).frame.xs("", level="line").index
    assert list(facts) == ["Model", "N", "Guarantee", "Inference"]


def test_stars_follow_the_pvalues_of_each_result(case, logit):
    private = case.noisy(release=paid("a"))
    table = summary_table([private, case.ols, logit], stars=True)
    seen = set()
    for name, result in zip(table.frame.columns, (private, case.ols, logit), strict=True):
        for term, chance in result.pvalues.items():
            expected = sum(chance < level for level in (0.1, 0.05, 0.01))
            assert table.frame.loc[(term, "coef"), name].count("*") == expected
            seen.add(expected)
    assert len(seen) > 1
    assert "*** p < .01" in flat(table)
    assert "*" not in flat(summary_table([private, case.ols, logit]))


def test_small_and_large_numbers_are_readable(case):
    params = np.array([1.23456789, 12345.678, 3.21e-7, -4.5e12])
    result = case.results(release=paid("a"), params=params)
    shown = summary_table([result]).frame.xs("coef", level="line").iloc[:, 0]
    assert shown.tolist() == ["1.2346", "12,346", "3.21e-07", "-4.5e+12"]
    zero = case.results(release=paid("a"), params=np.array([-0.0, 0.0005, 9.0, 1.0]))
    assert summary_table([zero]).frame.iloc[:4:2, 0].tolist() == ["0.0000", "0.0005"]


def test_descriptions_and_families_have_columns(case):
    rng = np.random.default_rng(5)
    schema = dpi.Schema(x=dpi.Real(0, 1), g=dpi.Category(["a", "b"]))
    ledger = dpi.Ledger.in_memory(ZCDP(2), dataset="survey")
    data = dpi.PrivateData(schema.sample(2000, rng), schema, ledger)
    mean = dpi.mean("x", data, by=["g"]).fit(ZCDP(0.5))
    first, second = (dpi.count(data, by="g").measure(ZCDP(rho)) for rho in (0.1, 0.2))
    counts = combine([first, second])
    table = summary_table([mean, counts, first.infer()])
    assert table.frame.loc[("Model", "")].tolist() == ["Private mean", "2 combined releases", first.infer().model_name]
    assert table.frame.loc[(mean.params.index[0], "coef")].tolist()[0] == f"{mean.params.iloc[0]:.4f}"
    (total,) = totals(table)
    assert "'survey' (add_remove), 3 releases: 0.8-zCDP" in total
    assert ledger.spent == ZCDP(0.8)


def test_results_of_arrays_and_of_several_equations(case):
    rng = np.random.default_rng(11)
    exog = np.column_stack([np.ones(300), rng.normal(size=300)])
    plain = sm.OLS(exog[:, 1] + rng.normal(size=300), exog).fit()
    table = summary_table([plain])
    assert list(table.frame.xs("coef", level="line").index) == ["const", "x1"]
    assert list(table.frame.columns) == ["y"]
    levels = pd.Series(rng.choice(["hi", "lo", "mid"], 300), name="level").astype("category")
    design = pd.DataFrame(exog, columns=["const", "x"])
    several = sm.MNLogit(levels, design).fit(disp=0)
    table = summary_table([several, plain], show="conf_int", stars=True, float_format="%.6f")
    for place, outcome in enumerate(["lo", "mid"]):
        for term in design.columns:
            estimate = table.frame.loc[(f"{outcome}: {term}", "coef"), "level"]
            assert estimate.rstrip("*") == f"{several.params.loc[term, place]:.6f}"
            assert estimate.count("*") == sum(several.pvalues.loc[term, place] < level for level in (0.1, 0.05, 0.01))
            lower, upper = several.conf_int().loc[(outcome, term)]
            assert table.frame.loc[(f"{outcome}: {term}", "conf_int"), "level"] == f"[{lower:.6f}, {upper:.6f}]"
    assert summary_table([sm.MNLogit(levels.cat.codes.to_numpy(), exog).fit(disp=0)]).frame.index[2][0] == "1: x1"


# Names and notes


def test_default_names_are_distinct(case):
    one = case.noisy(release=paid("a"))
    clash = case.noisy(release=paid("a"), response="income (1)")
    unnamed = case.noisy(release=paid("a"), response="")
    columns = summary_table([one, case.ols, clash, unnamed]).frame.columns
    assert list(columns) == ["income (2)", "income (3)", "income (1)", "Private OLS"]
    assert list(summary_table([one, clash], names=["a", "b"]).frame.columns) == ["a", "b"]


def test_an_ordinary_result_beside_private_ones_is_warned_of(case, logit):
    private = case.noisy(release=paid("a"))
    table = summary_table([private, case.ols, logit], names=["p", "o", "l"])
    (warning,) = table.warnings
    assert warning.startswith("o, l: ordinary results, without any guarantee.")
    assert "void the guarantees" in warning
    assert summary_table([case.ols, logit]).warnings == ()
    simulated = case.noisy(release=replace(paid(None), public=True))
    assert summary_table([simulated, case.ols]).warnings == ()
    assert "Warning: o, l: ordinary" in flat(table)


def test_flags_carry_the_name_of_their_column(case):
    one = case.noisy(release=paid("a"), flags=("Noise dominates age.",))
    table = summary_table([one, case.noisy(release=paid("b"))], names=["first", "second"])
    assert table.warnings == ("first: Noise dominates age.",)
    assert "Warning: first: Noise dominates age." in flat(table)


def test_every_guarantee_is_stated_once_in_full(case):
    shared, other = paid("c-1"), paid("c-2", 0.3, neighbors="replace_one")
    results = [case.noisy(release=shared), case.noisy(release=replace(shared)), case.noisy(release=other)]
    notes = summary_table(results, names=["a", "b", "c"]).notes
    (first,) = [note for note in notes if "0.1-zCDP" in note and "Ledger" in note]
    assert first.startswith("a, b (one release): Guarantee: 0.1-zCDP, which implies (")
    assert "adding or removing" in first
    assert first.endswith("Ledger charge: c-1.")
    (second,) = [note for note in notes if note.startswith("c: Guarantee")]
    assert "replacing one row with another" in second


def test_estimates_about_the_data_are_said_to_be(case):
    table = summary_table([case.noisy(release=paid("a"), target="data"), case.ols], names=["d", "o"])
    assert "d: for these rows, not a wider population: standard errors include privacy noise only." in table.notes
    assert "wider population" not in flat(summary_table([case.noisy(release=paid("a"))]))


# What all cost together


def test_a_release_behind_several_columns_is_paid_for_once(case):
    results = [case.noisy(release=paid(charge)) for charge in ("a", "b", "a", "b", "a")]
    (total,) = totals(summary_table(results))
    assert total.startswith(
        "Total spent by these results on data set 'survey' (add_remove), 2 releases: 0.2-zCDP, which implies"
    )
    (total,) = totals(summary_table(results[:1]))
    assert ", 1 release: 0.1-zCDP" in total


def test_releases_without_a_charge_are_told_apart_as_objects(case):
    one, other = paid(None), paid(None)
    (total,) = totals(summary_table([case.noisy(release=release) for release in (one, one, other)]))
    assert "2 releases: 0.2-zCDP" in total


def test_a_ledger_agrees_with_the_total(case):
    rng = np.random.default_rng(1)
    schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
    ledger = dpi.Ledger.in_memory(GDP(2), dataset="survey")
    data = dpi.PrivateData(schema.sample(1500, rng), schema, ledger)
    gram = dpi.gram(["x", "y"], data).fit(GDP(0.3)).release
    results = [gram_ols("y ~ x", gram).infer(), gram_ols("x ~ y", gram).infer(), dpi.mean("x", data).fit(GDP(0.4))]
    (total,) = totals(summary_table(results))
    assert ledger.spent == GDP(0.5)
    assert "2 releases: " in total
    assert "0.5-GDP" in total


def test_different_units_have_no_single_sum(case):
    releases = [paid("a"), paid("b", 0.2), Named(pure(0.5), charge_ids=("c",)), Named(pure(0.5), charge_ids=("d",))]
    (total,) = totals(summary_table([case.noisy(release=release) for release in releases]))
    assert "4 releases: privacy losses in different units have no single sum. They are 0.3-zCDP, which" in total
    assert "; and 1-DP (pure)" in total
    assert "together they satisfy 0.55-zCDP" in total
    bare = Named(Cost(PureDP(0.5), pure_epsilon=Fraction(1, 2)), charge_ids=("e",))
    (total,) = totals(summary_table([case.noisy(release=release) for release in (releases[0], bare)]))
    assert total.endswith("; and 0.5-DP (pure).")


def test_different_neighbours_are_never_summed(case):
    results = [case.noisy(release=paid("a")), case.noisy(release=paid("b", 0.2, neighbors="replace_one"))]
    table = summary_table(results)
    first, second = totals(table)
    assert "(add_remove), 1 release: 0.1-zCDP" in first
    assert "(replace_one), 1 release: 0.2-zCDP" in second
    assert "0.3-zCDP" not in flat(table)
    assert "Costs under different neighbours are not summed." in table.notes


def test_each_data_set_has_its_own_total(case):
    results = [case.noisy(release=paid("a")), case.noisy(release=paid("b", 0.2, dataset="census"))]
    table = summary_table(results)
    first, second = totals(table)
    assert "'survey'" in first
    assert "0.1-zCDP" in first
    assert "'census'" in second
    assert "0.2-zCDP" in second
    assert "Different data sets" in flat(table)
    assert "neighbours are not summed" not in flat(table)


def test_simulated_releases_are_not_counted(case):
    simulated = case.noisy(release=paid(None, 0.7, public=True, dataset=None))
    table = summary_table([case.noisy(release=paid("a")), simulated], names=["p", "s"])
    assert table.frame.loc[("Guarantee", "")].tolist() == ["ZCDP(rho=0.1)", "none (public data)"]
    (total,) = totals(table)
    assert "1 release: 0.1-zCDP" in total
    assert "s: Simulated from public data" in flat(table)
    assert totals(summary_table([simulated])) == []


@pytest.mark.parametrize(
    ("charges", "amount"),
    [
        (["ab", "a"], "0.2-zCDP"),
        (["a", "ab", "b"], "0.2-zCDP"),
        (["ab", "bc", "a", "b", "c"], "0.3-zCDP"),
        (["ab", "cd", "bc"], "0.4-zCDP"),
        (["ab", "bc"], "at most 0.4-zCDP"),
    ],
)
def test_parts_of_combined_releases_are_paid_for_once(case, charges, amount):
    releases = []
    for charge in charges:
        several = len(charge) > 1
        cost = zcdp(0.2 if several else 0.1)
        releases.append(CombinedRelease(cost, "add_remove", tuple(charge), False) if several else paid(charge))
    table = summary_table([case.noisy(release=release) for release in releases])
    (total,) = totals(table)
    assert f"releases: {amount}" in total


def test_combined_releases_in_several_units_are_taken_apart(case):
    both = CombinedRelease(SeveralCosts((zcdp(0.1), pure(0.5))), "add_remove", ("a", "b"), False)
    table = summary_table([case.noisy(release=both), case.noisy(release=Named(pure(0.5), charge_ids=("b",)))])
    (total,) = totals(table)
    assert "2 releases: privacy losses in different units" in total
    assert "They are 0.1-zCDP" in total
    assert "; and 0.5-DP (pure)" in total
    assert table.frame.loc[("Guarantee", "")].iloc[0] == "ZCDP(rho=0.1) and PureDP(epsilon=0.5)"
    other = CombinedRelease(SeveralCosts((pure(0.5), zcdp(0.3))), "add_remove", ("b", "c"), False)
    (total,) = totals(summary_table([case.noisy(release=both), case.noisy(release=other)]))
    assert "3 releases: privacy losses in different units have no single sum. They are 0.4-zCDP" in total
    assert "; and 0.5-DP (pure)" in total


def test_a_comma_in_a_charge_does_not_make_it_two(case):
    (total,) = totals(summary_table([case.noisy(release=paid("a, b")), case.noisy(release=paid("a"))]))
    assert "2 releases: 0.2-zCDP" in total


def test_costs_without_a_proof_in_zcdp_are_listed_and_not_summed(case):
    told = Cost(ApproxDP(1.0, 1e-6), approx=ApproxDP(1.0, 1e-6))
    (total,) = totals(summary_table([case.noisy(release=Named(told)), case.noisy(release=paid("b"))]))
    assert total.endswith(f"They are {told.describe()}; and 0.1-zCDP, which implies (2.15, 1e-06)-DP.")


# Formats


def test_text_is_ruled_and_aligned(case, logit):
    long = "monthly_household_income_after_taxes"
    private = case.noisy(
        release=paid("a"), response=long, names=("Intercept", "a " * 40 + "b", "educ", "x" * 90), nobs=None
    )
    table = summary_table([private, case.ols, logit], stars=True, title="A title " * 30)
    text, _, notes = str(table).partition("Notes:\n")
    lines = text.splitlines()
    ruled = [line for line in lines if set(line) in ({"="}, {"-"})]
    assert [line[0] for line in ruled] == ["=", "-", "-", "="]
    assert len({len(line) for line in ruled}) == 1
    width = len(ruled[0])
    body = lines[lines.index(ruled[0]) :]
    assert {len(line) for line in body if line.strip()} == {width}
    assert max(map(len, (*lines, *notes.splitlines()))) <= width
    assert width < 110
    assert long not in text
    joined = "".join(line[:36].strip() for line in body)
    assert "x" * 90 in joined
    assert "not released" in text


def test_last_digits_stand_below_each_other(case):
    lines = summary_table([case.noisy(release=paid("a"))], stars=True).as_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("Intercept"))
    above, below = (re.search(r"\d(?=\D*$)", lines[row]).start() for row in (place, place + 1))
    assert above == below


def test_names_are_escaped_in_each_format(case):
    names = ("Intercept", "a_b & <c>", "[d|e]", "$f$ ^ {g}")
    private = case.noisy(release=paid("a_1", dataset="x_y&<z>"), names=names, flags=("5% of a_b & $c$.",))
    table = summary_table([private], names=["y_1 & <i>$|"], title="T_1 & <b>")
    page = table.as_html()
    for raw in ("a_b & <c>", "y_1 & <i>$|", "T_1 & <b>", "x_y&<z>"):
        assert raw not in page
        assert html.escape(raw) in page
    assert "tex2jax_ignore" in page
    assert page == table._repr_html_()
    latex = table.as_latex()
    for escaped in (r"a\_b \& \textless c\textgreater ", r"{}[d\textbar e]", r"\$f\$ \textasciicircum  \{g\}"):
        assert escaped in latex
    assert r"y\_1 \& \textless i\textgreater \$\textbar " in latex
    assert r"\textbf{T\_1 \& \textless b\textgreater }" in latex
    assert r"5\% of a\_b \& \$c\$." in latex
    assert r"x\_y\&\textless z\textgreater " in latex
    marked = table.as_markdown()
    assert r"| a\_b \& \<c> |" in marked
    assert r"| \[d\|e] |" in marked
    assert r"\$f\$ ^ {g}" in marked
    assert r"|  | y\_1 \& \<i>\$\| |" in marked
    assert "a_b & <c>" in str(table)


def test_latex_is_one_balanced_booktabs_table(case, logit):
    latex = summary_table([case.noisy(release=paid("a")), logit], stars=True).as_latex()
    assert latex.count(r"\begin{tabular}{lrr}") == latex.count(r"\end{tabular}") == 1
    assert [latex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {2}
    assert latex.count("{") == latex.count("}")


def test_html_and_markdown_have_every_cell(case, logit):
    table = summary_table([case.noisy(release=paid("a")), logit])
    rows = re.findall(r"<tr>(.*?)</tr>", table.as_html(), flags=re.DOTALL)
    cells = [[cell.strip() for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]
    assert cells[0] == ["", *table.frame.columns]
    assert [row[1:] for row in cells[1:]] == table.frame.to_numpy().tolist()
    lines = [line for line in table.as_markdown().replace("\\", "").splitlines() if line.startswith("|")]
    shown = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert lines[1] == "| :--- | ---: | ---: |"
    assert [row[1:] for row in shown[2:]] == table.frame.to_numpy().tolist()


def test_line_breaks_in_names_do_not_break_the_table(case):
    result = case.noisy(release=paid("a"), names=("Intercept", "two\nlines", "c", "d"), response="in\ncome")
    table = summary_table([result])
    assert list(table.frame.columns) == ["in come"]
    assert "two lines" in str(table)
    assert "| two lines |" in table.as_markdown()


def test_the_table_holds_text_only(case):
    table = summary_table([case.noisy(release=paid("a")), case.ols])
    stored = pickle.dumps(table)
    assert len(stored) < 20_000
    assert pickle.loads(stored).as_text() == table.as_text()
    assert isinstance(table, SummaryTable)
    assert repr(table) == "<SummaryTable: Results side by side, 2 columns>"
    assert all(isinstance(cell, str) for cell in table.frame.to_numpy().ravel())


# Bad input


def test_what_is_no_list_of_results_is_refused(case):
    for given in ([], (), case.ols, "text", {"a": case.ols}, None):
        with pytest.raises(OptionError, match="a list of one or more results"):
            summary_table(given)
    test = case.noisy(release=paid("a"))
    for other in (3, None, SimpleNamespace(params=1, bse=1), test.t_test("age = 0"), test._results):
        with pytest.raises(OptionError, match=rf"results\[1\]=<{type(other).__name__}>"):
            summary_table([case.ols, other])


def test_results_without_what_is_to_be_shown_are_refused(case):
    model = sm.OLS(case.design["age"], case.design[["Intercept"]])
    with pytest.raises(OptionError, match=r"results\[0\]=<RegularizedResultsWrapper>"):
        summary_table([model.fit_regularized()])
    walk = pd.DataFrame(np.random.default_rng(2).normal(size=(80, 2)), columns=["a", "b"])
    vector = sm.tsa.VAR(walk).fit(1)
    assert summary_table([vector]).frame.loc[("b: L1.a", "coef")].tolist() == [f"{vector.params.loc['L1.a', 'b']:.4f}"]
    with pytest.raises(OptionError, match="with intervals to show them"):
        summary_table([vector], show="conf_int")
    twice = pd.concat([case.design[["age"]], case.design[["age"]] ** 2], axis=1)
    with pytest.raises(OptionError, match="no term twice"):
        summary_table([sm.OLS(case.design["educ"], twice).fit()])


@pytest.mark.parametrize(
    "options",
    [
        {"names": ["a"]},
        {"names": ["a", "a"]},
        {"names": ["a", " a "]},
        {"names": ["a", " "]},
        {"names": ["a", 1]},
        {"names": "ab"},
        {"show": "bse"},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"float_format": "none"},
        {"float_format": "%d %d"},
        {"float_format": 3},
        {"float_format": ""},
        {"title": 3},
    ],
)
def test_bad_options_are_refused(case, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        summary_table([case.noisy(release=paid("a")), case.ols], **options)
