"""Regressions clustered by public groups: statsmodels' estimator, what the kernel sums, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError, UnknownColumnError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from validation.regression.newton_draws import Drawer

GROUPS, SIZE = 12, 4000
LEVELS = [f"s{one}" for one in range(GROUPS)]
SCHEMA = dpi.Schema(g=dpi.Category(LEVELS), x=dpi.Real(-3, 3), z=dpi.Real(-3, 3), y=dpi.Real(-9, 9), b=dpi.Boolean())


def frame(seed=2, size=SIZE):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, size)
    x = (0.7 * rng.normal(size=GROUPS)[group] + 0.6 * rng.normal(size=size)).clip(-3, 3)
    z = rng.normal(size=size).clip(-3, 3)
    shared = 0.5 * rng.normal(size=GROUPS)[group]
    y = (1 + 0.5 * x - z + shared + rng.normal(size=size)).clip(-9, 9)
    b = rng.random(size) < 1 / (1 + np.exp(-x - shared))
    return pd.DataFrame({"g": np.array(LEVELS)[group], "x": x, "z": z, "y": y, "b": b})


def public(**options):
    return dpi.PublicData(frame(), SCHEMA, rng=np.random.default_rng(1), **options)


CLUSTERED = {"cov_type": "cluster", "cov_kwds": {"groups": frame()["g"].factorize()[0]}, "use_t": True}
THEIRS = {
    "ols": lambda: smf.ols("y ~ x + z", frame()).fit(**CLUSTERED),
    "logit": lambda: smf.logit("b ~ x + z", frame().astype({"b": int})).fit(disp=0, **CLUSTERED),
    "glm": lambda: smf.glm("b ~ x + z", frame().astype({"b": int}), family=sm.families.Binomial()).fit(**CLUSTERED),
}
OURS = {
    "ols": lambda **o: dpi.ols("y ~ x + z", public(), groups="g", **o),
    "logit": lambda **o: dpi.logit("b ~ x + z", public(), groups="g", **o),
    "glm": lambda **o: dpi.glm("b ~ x + z", public(), family=sm.families.Binomial(), groups="g", **o),
}


@pytest.mark.parametrize("name", OURS)
def test_without_noise_they_are_statsmodels_clusters(name):
    theirs, ours = THEIRS[name](), OURS[name]().fit(dpi.ZCDP(1e9))
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-3)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1.5e-2)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=2e-2, atol=3e-3)
    said = "clustered by g; tests use a t distribution with at most 11 degrees"
    assert said in " ".join(str(ours.summary()).split())


def last_sums(price, neighbors="add_remove", **options):
    question = OURS["ols"](**options)
    drawer = Drawer(question, Context(SCHEMA, neighbors, price, SIZE if neighbors == "replace_one" else None))
    cells = {name: frame()[name].to_numpy() for name in SCHEMA}
    released = tuple(drawer.stages(cells, np.random.default_rng(3)).values())
    return question.stage(len(released) - 1, drawer.context, released[:-1]).measure


def test_scores_are_summed_in_the_group_of_their_row():
    rows = last_sums(dpi.ZCDP(1)).rows
    cells = {name: frame()[name].to_numpy() for name in rows.columns}
    found = np.array(rows.finish(rows.add(Batch(cells, SIZE))[0].tolist()), dtype=float)
    score, meat = (found[rows.part_of == rows.parts.index(name)] for name in ("score", "meat"))
    np.testing.assert_array_equal(meat.reshape(GROUPS, -1).sum(axis=0), score)  # both are cut alike
    mine = np.flatnonzero(frame()["g"] == "s5")
    own = rows.add(Batch({name: one[mine] for name, one in cells.items()}, len(mine)))[0]
    alone = own[rows.part_of == rows.parts.index("meat")].reshape(GROUPS, -1)
    np.testing.assert_array_equal(alone[5], meat.reshape(GROUPS, -1)[5])
    assert not np.delete(alone, 5, axis=0).any()


@pytest.mark.parametrize(("price", "neighbors"), [*product((dpi.ZCDP(1), dpi.PureDP(1)), NEIGHBORS)])
def test_no_row_moves_the_sums_by_more_than_is_priced(price, neighbors):
    measure = last_sums(price, neighbors)
    rows, norm = measure.rows, "l1" if isinstance(price, dpi.PureDP) else "l2"
    bounded = rows.bounded(neighbors, norm, weights=measure.weights)
    rng = np.random.default_rng(4)
    ends = {"x": [-3, 3, 0, 1e300, np.nan], "z": [-3, 3, 0, -np.inf], "y": [-9, 9, 0, 1e9], "g": [*LEVELS, "none"]}

    def moved():
        cells = {name: np.array([rng.choice(np.array(one, dtype=object))], dtype=object) for name, one in ends.items()}
        return rows.add(Batch({name: cells[name] for name in rows.columns}, 1))[0] / bounded.weights

    most = 0.0
    for _ in range(400):
        change = moved() - (moved() if neighbors == "replace_one" else 0.0)
        most = max(most, float(np.abs(change).sum() if norm == "l1" else np.linalg.norm(change)))
    assert 0.2 * float(bounded.bound) < most <= float(bounded.bound) * (1 + 1e-9)


def test_what_cannot_be_clustered_is_refused_before_a_charge():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    data = dpi.PrivateData(frame(), SCHEMA, ledger)
    for options, error, told in (
        ({"groups": "state"}, UnknownColumnError, "state"),
        ({"groups": "x"}, OptionError, "levels"),
        ({"cov_type": "cluster"}, OptionError, "groups"),
        ({"cov_type": "HC1", "groups": "g"}, OptionError, "groups"),
        ({"groups": 3}, OptionError, "groups"),
        ({"groups": "g", "method": "gram"}, OptionError, "groups"),
    ):
        with pytest.raises(error, match=told):
            dpi.ols("y ~ x", data, **options).fit(dpi.ZCDP(0.1))
    people = frame().assign(who=np.arange(SIZE) // 2)
    several = dpi.PublicData(people, SCHEMA, rng=np.random.default_rng(1), id="who", max_rows=2)
    with pytest.raises(NotProvedError, match="people with several rows"):
        dpi.ols("y ~ x", several, groups="g").fit(dpi.ZCDP(0.1))
    assert ledger.charges().empty


def test_a_release_is_read_again_and_an_older_question_has_no_groups():
    release = OURS["ols"]().measure(dpi.ZCDP(2))
    stored = dpi.Release.from_json(release.to_json())
    again = dpi.ols("y ~ x + z", stored, groups="g").infer()
    pd.testing.assert_series_equal(again.bse, OURS["ols"]().infer(release).bse)
    assert stored.question["groups"] == "g"
    assert "groups" not in dpi.ols("y ~ x", public()).measure(dpi.ZCDP(1)).question


def test_groups_that_noise_hides_have_few_degrees_of_freedom():
    results = OURS["ols"]().fit(dpi.ZCDP(0.005))
    width = np.ptp(results.conf_int().to_numpy(), axis=1) / (2 * results.bse)
    assert (width > 2.3).all()  # t of 11 degrees of freedom has 2.2


def test_the_question_and_the_ledger_name_the_groups():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    question = dpi.ols("y ~ x", dpi.PrivateData(frame(), SCHEMA, ledger), groups="g")
    assert "ols: y ~ x, clustered by g" in question.explain(dpi.ZCDP(0.1))
    question.measure(dpi.ZCDP(0.1))
    assert "clustered by g" in ledger.charges().to_string()
