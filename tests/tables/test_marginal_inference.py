"""What releases of marginals tell: against dense least squares over the whole table, and the planner against bounds."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.statistics.inference import Released
from dpinfer.tables.marginal_inference import (
    centered_margins,
    count_estimates,
    joint_counts,
    joint_shares,
    largest_variance_loads,
    nonnegative,
    parts_of,
    share_estimates,
    subsets_of,
)

LEVELS = (2, 4, 3)
PRICES = {"pure": dpi.PureDP(1.0), "zcdp": dpi.ZCDP(0.1)}


def asked(levels=LEVELS, workload=(("c0", "c1"), ("c1", "c2"), ("c0", "c2")), *, kept=False, **options):
    policy = {"missing": 0, "impossible": 0} if kept else {}
    schema = dpi.Schema({f"c{i}": dpi.Integer(0, m - 1, **policy) for i, m in enumerate(levels)})
    return dpi.marginals(workload, **options), schema


def measured(price, neighbors="add_remove", *, kept=False, levels=LEVELS, **options):
    question, schema = asked(levels, kept=kept, **options)
    return question.measurement(PRICES[price], schema=schema, neighbors=neighbors), schema


def released(plan, schema, neighbors, values, nobs=None):
    context = Context(schema, neighbors, plan.context.privacy, nobs)
    return Released(context, plan.rows, plan.names, plan.law, np.asarray(plan.steps), values)


def design(rows, levels=LEVELS):
    """What a row of each cell of the whole table adds to the sums (m, G)."""
    cells = np.array(list(product(*map(range, levels))))
    batch = Batch({f"c{i}": cells[:, i] for i in range(len(levels))}, len(cells), sets=len(cells))
    return rows.finish_sets(rows.add(batch).astype(float)).T


def margin(subset, levels=LEVELS):
    """Which cells of the whole table are in each cell of a marginal (cells, G), its columns in the order given."""
    cells = np.array(list(product(*map(range, levels))))
    wanted = list(product(*(range(levels[i]) for i in subset)))
    return np.array([(cells[:, subset] == one).all(axis=1) for one in wanted], dtype=float)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("price", PRICES)
def test_estimates_and_covariances_are_those_of_least_squares(price, kept, neighbors):
    plan, schema = measured(price, neighbors, kept=kept)
    known = kept and neighbors == "replace_one"
    rng = np.random.default_rng(3)
    table = rng.integers(0, 40, prod(LEVELS)).astype(float)
    matrix = design(plan.rows)
    variances = plan.law.variances * np.asarray(plan.steps) ** 2
    noise = rng.normal(size=matrix.shape[0]) * np.sqrt(variances)
    nobs = int(table.sum()) if known else None
    found = centered_margins(released(plan, schema, neighbors, (matrix @ table + noise)[None], nobs))
    exact = np.where(variances > 0, variances, 1e-8)
    measured_values = matrix @ table + noise
    if known and price == "pure":  # the public number of rows is one more measurement, without noise
        matrix = np.vstack([matrix, np.ones(matrix.shape[1])])
        measured_values, exact = np.append(measured_values, table.sum()), np.append(exact, 1e-8)
    root = matrix / np.sqrt(exact)[:, None]
    inverse = np.linalg.pinv(root, rcond=1e-12)
    solution = inverse @ (measured_values / np.sqrt(exact))
    for subset in [(0, 1), (1, 0), (2, 1), (2,), (1,), ()]:
        wanted = margin(list(subset)) if subset else np.ones((1, prod(LEVELS)))
        np.testing.assert_allclose(found.table(subset)[0], wanted @ solution, rtol=1e-6, atol=1e-3)
        covariance = wanted @ inverse @ inverse.T @ wanted.T
        scale = covariance.max() + 1e-3
        np.testing.assert_allclose(found.covariance(subset) / scale, covariance / scale, atol=2e-4)
        np.testing.assert_allclose(np.diag(found.covariance(subset)), found.cell_variance(subset), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("price", PRICES)
def test_exact_sums_give_the_exact_table(price):
    plan, schema = measured(price)
    table = np.arange(prod(LEVELS)).astype(float) ** 2
    values = (design(plan.rows) @ table)[None]
    found = centered_margins(released(plan, schema, "add_remove", values))
    for subset in [(0, 1), (1, 0), (2, 1), (2,), ()]:
        np.testing.assert_allclose(found.table(subset)[0], margin(list(subset)) @ table, rtol=1e-9)


@pytest.mark.parametrize("price", PRICES)
def test_sources_and_loadings_make_up_the_covariance(price):
    plan, schema = measured(price)
    found = centered_margins(released(plan, schema, "add_remove", np.zeros((1, len(plan.names)))))
    for subset in [(0, 1), (2, 0), (1,)]:
        covariance = found.covariance(subset)
        made = sum(
            (one.basis * (one.together * one.law.variances * one.steps**2)) @ one.basis.T
            for one in found.sources(subset)
        )
        np.testing.assert_allclose(made, covariance, rtol=1e-6, atol=1e-6 * covariance.max())
        if found.laplace:
            loadings, variances = found.loadings(subset)
            np.testing.assert_allclose((loadings * variances) @ loadings.T, covariance, rtol=1e-9, atol=1e-9)
            some, _ = found.loadings(subset, [1])
            np.testing.assert_array_equal(some[0], loadings[1])


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("population", [False, True])
def test_counts_and_shares_of_many_releases_are_those_of_each(price, population):
    plan, schema = measured(price)
    rng = np.random.default_rng(1)
    values = (design(plan.rows) @ rng.integers(5, 90, prod(LEVELS)))[None] + rng.normal(0, 9, (3, len(plan.names)))
    many = centered_margins(released(plan, schema, "add_remove", values))
    place = np.einsum("gh,ql->gqhl", np.eye(2), np.vstack([np.ones(4), np.eye(4)])).reshape(2, 5, 8)
    all_counts = count_estimates(many, (0, 1), population=population, nobs=None)
    all_shares = share_estimates(many, (0, 1), place, population=population)
    for row in range(3):
        one = centered_margins(released(plan, schema, "add_remove", values[row : row + 1]))
        counts = count_estimates(one, (0, 1), population=population, nobs=None)
        np.testing.assert_allclose(counts.value[0], all_counts.value[row])
        np.testing.assert_allclose(counts.variance[0], all_counts.variance[row])
        shares = share_estimates(one, (0, 1), place, population=population)
        np.testing.assert_allclose(shares.value[0], all_shares.value[row])
        np.testing.assert_allclose(shares.variance[0], all_shares.variance[row])
        joint = joint_shares(one, (0, 1), place, shares)
        np.testing.assert_allclose(np.diag(joint.noise + joint.sampling), shares.variance[0].ravel(), rtol=1e-6)
        joint = joint_counts(one, (0, 1), counts, None)
        np.testing.assert_allclose(np.diag(joint.noise + joint.sampling), counts.variance[0].ravel(), rtol=1e-6)
        assert np.linalg.eigvalsh(joint.noise + joint.sampling).min() > 0


def test_sampling_under_a_public_number_of_rows_is_multinomial():
    plan, schema = measured("zcdp", "replace_one", kept=True)
    table = np.linspace(5, 80, prod(LEVELS)).round()
    size = int(table.sum())
    found = centered_margins(released(plan, schema, "replace_one", (design(plan.rows) @ table)[None], size))
    estimates = count_estimates(found, (0, 1), population=True, nobs=size)
    joint = joint_counts(found, (0, 1), estimates, size)
    counts = margin([0, 1]) @ table
    expected = np.diag(counts) - np.outer(counts, counts) / size
    np.testing.assert_allclose(joint.sampling, expected, rtol=0.02, atol=0.02 * expected.max())


# The planner


def objective_of(plan, subsets, weights):
    zero = released(plan, plan.context.schema, "add_remove", np.zeros((1, len(plan.names))))
    found = centered_margins(zero)
    cells = np.array([found.cells(one) for one in subsets])
    return cells * weights, np.array([found.cell_variance(one) for one in subsets])


@pytest.mark.parametrize("levels", [(2, 5, 3, 4), (3, 3, 3), (2, 2, 2, 2, 2)])
def test_the_sum_of_variances_reaches_the_bound_of_all_gaussian_mechanisms(levels):
    names = [f"c{i}" for i in range(len(levels))]
    pairs = list(combinations(names, 2))
    plan, _ = measured("zcdp", levels=levels, workload=pairs)
    subsets = list(combinations(range(len(levels)), 2))
    cells, variance = objective_of(plan, subsets, np.ones(len(subsets)))
    singular = 0.0
    for part in subsets_of(subsets):
        value = sum(1 / prod(levels[i] for i in one) for one in subsets if {*part} <= {*one})
        singular += prod(levels[i] - 1 for i in part) * value**0.5
    assert (cells * variance).sum() == pytest.approx(singular**2 / 0.2, rel=1e-6)


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_no_other_noise_does_better(kind):
    levels, pairs = (2, 6, 3), [("c0", "c1"), ("c1", "c2"), ("c2",)]
    question, schema = asked(levels, pairs, objective=kind)
    weights = question.plan(schema).noise_weights(pure=False)
    subsets = question.plan(schema).workload
    closure = question.plan(schema).closure
    unit = {part: prod(1 - 1 / levels[i] for i in part) for part in closure}

    def value(noise):
        price = sum(unit[part] / one**2 for part, one in zip(closure, noise, strict=True))
        variance = [
            sum(
                one**2 * unit[part] / prod(levels[i] for i in subset if i not in part) ** 2
                for part, one in zip(closure, noise, strict=True)
                if part in parts_of(subset)
            )
            for subset in subsets
        ]
        cells = [prod(levels[i] for i in subset) for subset in subsets]
        return price * (np.dot(cells, variance) if kind == "sum" else max(variance))

    best, rng = value(weights), np.random.default_rng(0)
    others = [value(np.asarray(weights) * np.exp(rng.normal(0, spread, len(weights)))) for spread in (0.02, 0.3)]
    others += [value(np.asarray(weights) * np.exp(rng.normal(0, 0.1, len(weights)))) for _ in range(200)]
    assert best <= min(others) * (1 + 2e-4)


def test_loads_of_the_largest_variance_close_the_gap_of_duality():
    rng = np.random.default_rng(4)
    inside, unit = rng.uniform(0, 1, (6, 9)), rng.uniform(0.2, 1, 9)
    loads = largest_variance_loads(inside, unit)
    variance = inside @ (unit / np.sqrt(loads @ inside))
    assert variance.max() <= 1.0002 * float(loads @ variance)
    assert loads.sum() == pytest.approx(1.0)


def test_weights_bring_noise_down_where_they_are_large():
    even, schema = asked()
    more, _ = asked(workload=dpi.workload(["c0", "c1", "c2"], weights={("c1", "c0"): 100}))
    errors = []
    for question in (even, more):
        plan = question.measurement(PRICES["zcdp"], schema=schema, neighbors="add_remove")
        errors.append(objective_of(plan, [(0, 1), (0, 2), (1, 2)], np.ones(3))[1])
    assert errors[1][0] < errors[0][0]
    assert errors[1][2] > errors[0][2]


# Display


def test_tables_for_display_are_not_negative_and_agree():
    plan, schema = measured("zcdp")
    rng = np.random.default_rng(2)
    table = rng.choice([0, 0, 0, 3, 50], prod(LEVELS)).astype(float)
    values = design(plan.rows) @ table + plan.law.rvs(1, rng)[0] * np.asarray(plan.steps) * 2
    found = centered_margins(released(plan, schema, "add_remove", values[None]))
    subsets = [(0, 1), (0, 2), (1, 2)]
    assert min(found.table(one).min() for one in subsets) < 0
    moved = nonnegative(found, subsets)
    tables = {one: moved.table(one)[0].reshape([LEVELS[i] for i in one]) for one in subsets}
    assert min(one.min() for one in tables.values()) >= -1e-3
    np.testing.assert_allclose(tables[0, 1].sum(axis=0), tables[1, 2].sum(axis=1), atol=1e-6)
    np.testing.assert_allclose(tables[0, 1].sum(axis=1), tables[0, 2].sum(axis=1), atol=1e-6)
    assert tables[0, 1].sum() == pytest.approx(found.table(())[0, 0])
