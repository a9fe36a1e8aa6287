"""Figures of counts: bars over a numeric axis, bars of levels, heat maps."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.patches import StepPatch

import dpinfer as dpi
from dpinfer.results.descriptions import level_name

SCHEMA = dpi.Schema(
    income=dpi.Real(-10_000, 90_000),
    group=dpi.Category(["north", "south", "the far west"]),
    smokes=dpi.Boolean(),
    kind=dpi.Category(list("abcdef")),
)
PRICE = dpi.ZCDP(0.5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return dpi.PublicData(SCHEMA.sample(5000, rng), SCHEMA, rng=rng)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def stairs(ax):
    return [one for one in ax.patches if isinstance(one, StepPatch)]


@pytest.mark.parametrize(
    ("bins", "label"), [(10, "count"), ([-10_000, 0, 30_000, 90_000], "count per unit of the axis")]
)
def test_bins_are_bars_over_a_numeric_axis(data, bins, label):
    found = dpi.histogram("income", data, bins=bins).fit(PRICE)
    ax = found.plot()
    (bars,) = stairs(ax)
    values, edges, _ = bars.get_data()
    np.testing.assert_allclose(edges, np.linspace(-1e4, 9e4, 11) if bins == 10 else bins)
    scale = 1.0 if bins == 10 else np.diff(edges)
    np.testing.assert_allclose(values, found.params.to_numpy() / scale)
    assert (ax.get_xlim(), ax.get_ylabel()) == ((-1e4, 9e4), label)
    assert ax.figure.get_size_inches()[1] < 5


def test_a_title_of_public_data_says_that_there_is_no_privacy():
    data = dpi.PublicData(SCHEMA.sample(500, np.random.default_rng(1)), SCHEMA, rng=np.random.default_rng(1))
    for question in (dpi.count(data, by="smokes"), dpi.cdf("income", data), dpi.quality(data)):
        results = question.fit(dpi.ZCDP(1.0))
        shown = " ".join(results.plot().get_title().split())
        assert "public data, no privacy" in shown
        assert "none" not in shown
    assert repr(results).endswith(", public data, no privacy>")


def test_groups_of_a_histogram_are_outlines_and_many_a_heat_map(data):
    ax = dpi.histogram("income", data, bins=5, by="smokes").fit(PRICE).plot()
    assert [one.get_label() for one in stairs(ax)] == ["no", "yes"]
    assert ax.get_legend().get_title().get_text() == "smokes"
    ax = dpi.histogram("income", data, bins=5, by="kind").fit(PRICE).plot()
    assert [text.get_text() for text in ax.get_xticklabels()][:2] == ["-10,000 to 10,000", "10,000 to 30,000"]
    assert [text.get_text() for text in ax.get_yticklabels()] == list("abcdef")


def test_levels_of_one_column_are_bars_with_intervals(data):
    found = dpi.count(data, by="group").fit(PRICE)
    ax = found.plot()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.params)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["north", "south", "the far west"]
    ends = found.conf_int()
    drawn = ax.collections[0].get_segments()
    np.testing.assert_allclose([segment[:, 0] for segment in drawn], ends)


def test_levels_of_several_columns_are_a_heat_map(data):
    found = dpi.table(["group", "kind", "smokes"], data).fit(PRICE)
    ax = found.margin("group", "smokes").plot()
    (mesh,) = (one for one in ax.collections if isinstance(one, QuadMesh))
    assert mesh.get_array().shape == (3, 2)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["no", "yes"]
    assert len(found.plot().get_yticklabels()) == 18


@pytest.mark.parametrize("theme", ["default", "dark_background"])
def test_cells_are_legible_in_either_theme(data, theme):
    with plt.style.context(theme):
        ax = dpi.table(["group", "kind"], data).fit(PRICE).plot()
        (mesh,) = (one for one in ax.collections if isinstance(one, QuadMesh))
        shades = mesh.to_rgba(mesh.get_array()).reshape(-1, 4)[:, :3]
    weights = np.array([0.299, 0.587, 0.114])
    for text, shade in zip(ax.texts, shades, strict=True):
        assert abs((np.array(to_rgb(text.get_color())) - shade) @ weights) > 0.4


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (True, "yes"),
        (np.False_, "no"),
        ("[-10000, 500)", "-10,000 to 500"),
        ("[1, b)", "[1, b)"),
        (0.25, "0.25"),
        (3, "3"),
    ],
)
def test_names_of_levels(level, name):
    assert level_name(level) == name
