"""`dpi.audit` as a whole: what it takes, refuses, tells and plots."""

from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError, UnknownColumnError
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.studies import audit as audited
from dpinfer.studies.audit import FAMILYWISE, labels_finding
from validation.audit.planted import SCHEMA, Halves


def private(frame=None, **options):
    frame = SCHEMA.sample(20, np.random.default_rng(0)) if frame is None else frame
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0), **options))


@pytest.fixture(scope="module")
def mean():
    """An audit of a mean; its lower bounds are above the truth with probability below 1e-4.

    Of 20,000 runs the bound on mu is .87 in the middle, and was not below .76 in 3,000 simulated audits.
    """
    return dpi.audit(dpi.mean("income"), SCHEMA, dpi.ZCDP(0.5), runs=20_000, seed=3)


def test_a_true_price_passes(mean):
    assert mean.passed
    assert mean.failures == ()
    assert 0.99 < mean.ratio <= 1
    assert 0.6 < mean.mu <= 1
    assert 0 < mean.epsilon < 3
    assert mean.reached == mean.mu
    assert mean.error == FAMILYWISE == 1e-4


def test_every_check_has_a_row(mean):
    frame = mean.summary_frame()
    assert list(frame["part"].unique()) == ["exact", "statistical", "events"]
    assert len(frame) == len(mean.findings)
    assert frame["passed"].all()
    assert set(frame["price"]) == {"ZCDP(rho=0.5)", "ZCDP(rho=4.5)", ""}
    statistical = frame[frame["part"] == "statistical"]
    pvalues = statistical[statistical["check"].str.startswith("draws:")]
    assert (pvalues["limit"] * mean.tests).to_numpy() == pytest.approx(FAMILYWISE / 2)
    assert len(pvalues) + (len(statistical) - len(pvalues)) + 1 == mean.tests  # one more is the other kind of bound


def test_the_report_says_what_was_tried_and_at_which_error(mean):
    text = str(mean)
    for part in (
        "no check failed",
        "Tried:",
        "This would detect",
        "This cannot detect",
        "at most 0.0001",
        "Bonferroni",
    ):
        assert part in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    html = mean._repr_html_()
    assert html == mean.to_html()
    assert html.count("<table") == html.count("</table>") == 2
    assert "Bonferroni" in html
    facts = html.split("</table>")[0]
    assert facts.count("<tr>") == facts.count("<th") == 6  # one below the other
    assert "times its bound, between" in facts


def test_html_escapes_cells():
    schema = dpi.Schema(race=dpi.Category(["<script>", "b"]))
    found = dpi.audit(dpi.count(by="race"), schema, dpi.PureDP(1.0), runs=200)
    assert "<script>" not in found.to_html()


def test_the_plot_shows_measured_and_stated(mean):
    axes = mean.plot()
    assert {line.get_label() for line in axes.lines} >= {"measured", "stated: ZCDP(rho=0.5)"}
    assert mean.plot(ax=axes) is axes


def test_the_seed_chooses_pairs_and_never_noise(mean, monkeypatch):
    drawn = []
    right = PrivateDraws.noise
    monkeypatch.setattr(PrivateDraws, "noise", lambda self, law: drawn.append(right(self, law)) or drawn[-1])
    first = dpi.audit(dpi.count(), SCHEMA, dpi.ZCDP(0.5), runs=200, seed=5)
    noise, drawn[:] = list(drawn), []
    second = dpi.audit(dpi.count(), SCHEMA, dpi.ZCDP(0.5), runs=200, seed=5)
    assert first.pair == second.pair
    assert first.ratio == second.ratio
    assert noise != drawn


# What it works on


def test_a_procedure_of_ones_own_with_an_adaptive_stage():
    found = dpi.audit(Halves(column="income"), SCHEMA, dpi.GDP(1.0), runs=1000)
    assert found.passed
    assert found.ratio == pytest.approx(1.0, abs=1e-6)
    checks = set(found.summary_frame()["check"])
    assert {"change over bound, stage 1 of 2 (CellSum)", "change over bound, stage 2 of 2 (CellSum)"} <= checks


def test_people_and_replaced_rows():
    frame = SCHEMA.sample(40, np.random.default_rng(1))
    frame["who"] = np.arange(40) // 2
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(0), neighbors="replace_one", id="who", max_rows=2)
    found = dpi.audit(dpi.mean("income", data), None, dpi.PureDP(1.0), runs=500)
    assert found.passed
    assert found.neighbors == "replace_one"
    assert found.unit == "one person with at most 2 rows"


def test_public_rows_are_tried():
    rows = pd.DataFrame({"income": [1e9, 3.0], "age": [5, 6]})
    found = dpi.audit(dpi.mean("income", private()), None, dpi.ZCDP(0.5), rows=rows, runs=200)
    assert found.passed


def test_exact_inference_with_tulap_noise():
    schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    asked = dpi.proportion("smokes", inference="exact")
    found = dpi.audit(asked, schema, dpi.PureDP(1.0), runs=1000, neighbors="replace_one")
    assert found.passed
    assert found.stated.amount == Fraction(1)
    assert found.ratio == pytest.approx(1.0, rel=1e-6)


@dataclass(frozen=True, eq=False)
class Cheap(Halves):
    """Served at small prices alone."""

    procedures = ("cheap",)

    def slots(self, context):
        if context.privacy.mu > 1:
            raise dpi.errors.NotProvedError("cheap at mu of at most 1")
        return super().slots(context)


def test_a_large_price_that_is_not_served_is_noted():
    found = dpi.audit(Cheap(column="income"), SCHEMA, dpi.GDP(0.5), runs=200)
    assert found.passed
    assert found.notes == ("not tried at GDP(mu=3.0): cheap at mu of at most 1",)
    assert "Note: not tried at" in str(found)
    with pytest.raises(dpi.errors.NotProvedError, match="cheap"):
        dpi.audit(Cheap(column="income"), SCHEMA, dpi.GDP(2.0), runs=200)


# What it refuses


def test_confidential_rows_are_refused_and_not_read():
    data = private()
    with pytest.raises(OptionError, match=r"procedure=.*confidential rows.*public rows"):
        dpi.audit(dpi.mean("income", data), None, dpi.ZCDP(0.1))
    with pytest.raises(OptionError, match=r"rows=.PrivateData.*public rows"):
        dpi.audit(dpi.mean("income"), SCHEMA, dpi.ZCDP(0.1), rows=data)
    assert data.ledger.spent.is_zero


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"procedure": 3}, "procedure"),
        ({"schema": None}, "schema"),
        ({"schema": {"income": 3}}, "schema"),
        ({"privacy": 0.1}, "privacy"),
        ({"neighbors": "near"}, "neighbors"),
        ({"rows": [1]}, "rows"),
        ({"rows": pd.DataFrame({"income": [], "age": []})}, "rows.*no rows"),
        ({"runs": 10}, "runs"),
        ({"runs": "many"}, "runs"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
    ],
    ids=str,
)
def test_bad_input_is_refused_by_name(options, name):
    given = {"procedure": dpi.mean("income"), "schema": SCHEMA, "privacy": dpi.ZCDP(0.1)} | options
    with pytest.raises(OptionError, match=name):
        dpi.audit(given.pop("procedure"), given.pop("schema"), given.pop("privacy"), **given)


def test_rows_without_a_column_are_refused():
    with pytest.raises(UnknownColumnError, match="age"):
        dpi.audit(dpi.mean("income"), SCHEMA, dpi.ZCDP(0.1), rows=pd.DataFrame({"income": [1.0]}))


def test_it_is_the_public_name():
    assert dpi.audit is audited


def test_a_choice_is_not_said_to_be_above_a_true_zcdp_price():
    schema = dpi.Schema(race=dpi.Category(["a", "b", "c"]))
    found = dpi.audit(dpi.most_frequent("race"), schema, dpi.ZCDP(0.5), runs=np.int64(200))
    assert found.passed
    assert 0.9 < found.reached <= 1


@pytest.mark.parametrize(("rows", "passed"), [(3, True), (60, False)])
def test_equal_labels_tell_something_only_where_chance_is_no_explanation(rows, passed):
    dealt = SimpleNamespace(dealt=[np.arange(rows) % 20])
    setting, run = SimpleNamespace(recorded=lambda: (None, dealt)), SimpleNamespace(draws=dealt)
    assert labels_finding(setting, run).passed == passed
