"""Real data sets as populations: what is declared holds the rows, and true values carry the names of estimates."""

import numpy as np
import pytest

import dpinfer as dpi
from validation.common.real import CODEBOOKS, COLUMNS, STATSMODELS, RealRows, rows_of
from validation.common.simulated import Case, draw, rows

AT_HAND = [name for name in COLUMNS if name.split(":")[0] in STATSMODELS]


@pytest.mark.parametrize("name", AT_HAND)
def test_codebooks_hold_the_rows_and_draws_are_rows(name):
    source = COLUMNS[name]
    column = source.columns[0]
    declared, all_rows = CODEBOOKS[source.data][column], rows_of(source.data)[column].dropna()
    assert declared.lower <= all_rows.min()
    assert all_rows.max() <= declared.upper <= declared.lower + 3 * (all_rows.max() - declared.lower)
    drawn = source(np.random.default_rng(1), 200)[column]
    values, shares = source.atoms()
    assert set(drawn) <= set(values)
    assert shares @ values == pytest.approx(source.means(column)[column])


def test_true_values_have_the_names_of_estimates():
    pair, groups = RealRows.of("engel: income, foodexp"), RealRows.of("fair: affairs, occupation")
    data = dpi.PublicData(pair.frame, pair.schema("add_remove"), rng=np.random.default_rng(1))
    found = dpi.corr(["income", "foodexp"], data).fit(dpi.ZCDP(1e8)).params
    assert found["corr(income, foodexp)"] == pytest.approx(pair.products()["corr(income, foodexp)"], abs=1e-3)
    case = Case("c", "codebook", groups, dpi.mean("affairs", by="occupation"), groups.means("affairs", "occupation"),
                groups.schema, 2000, (dpi.ZCDP(0.5),), "replace_one")  # fmt: skip
    assert [row["term"] for row in rows(case, draw(case, np.random.default_rng(2), 4))] == [*case.truth]
    assert sum(groups.shares("occupation").values()) == pytest.approx(1)


def test_under_replace_one_missing_cells_have_constants():
    schema = RealRows.of("randhie: mdvis, idp").schema("replace_one")
    assert schema["mdvis"].missing == 0
    assert schema["idp"].missing is False
