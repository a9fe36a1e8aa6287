"""Whatever a question gives is shown: as text, as HTML and as a figure, on light and on dark ground."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

import dpinfer as dpi
from tests.contract.questions import HOME
from tests.reporting.test_page import Tags


def _checked_html(shown) -> str:
    page = shown._repr_html_()
    heads = Tags(page).of("th")
    assert heads
    assert all(one["scope"] in ("row", "col") for one in heads)
    assert "<caption>" in page
    return page


def _check_colours(ax: Axes) -> None:
    """Text has the colour of the theme; no line or bar has that of the ground."""
    rc, ground = plt.rcParams, to_rgb(ax.get_facecolor())
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        assert text.get_color() in {rc["text.color"], rc["axes.labelcolor"]}
    assert all(to_rgb(line.get_color()) != ground for line in ax.lines)
    assert not any(ax.spines[side].get_visible() for side in ("top", "right"))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("question", HOME)
def test_every_result_is_shown(question):
    if question.ask.function == "gram":  # a question that is bound to its release, and no result
        _checked_html(question.released)
        return
    own = question.ask.name == "expfam own"  # a family of one's own is stored by its name
    found = question.public().fit(question.privacy) if own else question.released.infer()
    assert repr(found)
    page = _checked_html(found)
    assert ">nan<" not in page.lower()
    assert ">nan%<" not in page.lower()
    for theme in ("default", "dark_background"):
        with plt.style.context(theme):
            ax = found.plot()
            try:
                assert isinstance(ax, Axes)
                _check_colours(ax)
                if theme == "default":
                    ax.figure.canvas.draw()
                assert found.plot(ax=ax) is ax
            finally:
                plt.close("all")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("question", HOME)
def test_every_result_with_estimates_has_frames_in_brooms_columns(question):
    if question.ask.function == "gram" or question.ask.name == "expfam own":
        return
    found = question.released.infer()
    if not all(hasattr(found, name) for name in ("params", "bse", "conf_int")):
        return  # a curve, a choice or a test
    frame, glance = found.to_frame(0.1), found.glance()
    assert list(frame)[:4] == ["term", "estimate", "std.error", "statistic"]
    assert frame["term"].tolist() == [str(term) for term in found.params.index]
    np.testing.assert_array_equal(frame["estimate"], found.params)
    np.testing.assert_array_equal(frame[["conf.low", "conf.high"]], found.conf_int(0.1))
    assert glance.shape[0] == 1
    assert glance["neighbours"].item() == found.release.neighbors


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", HOME)
def test_every_question_is_explained(question):
    asked = question.public()
    told = asked.explain(question.privacy)
    assert isinstance(told, str)
    assert repr(told) == str(told) == asked.describe(told.measurement)
    assert len(told.stages) == len(told.measurement.stages)
    assert told.stages["share"].sum() == pytest.approx(1.0)
    assert len(told.noise) == sum(told.stages["numbers"])
    assert told.privacy == question.privacy
    page = _checked_html(told)
    assert "guarantee" in page


def test_what_surrounds_results_is_shown():
    schema = dpi.Schema(age=dpi.Integer(0, 100, label="Age <at interview>", unit="years"), b=dpi.Boolean())
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), dataset="<survey>")
    data = dpi.PrivateData(schema.sample(1234, np.random.default_rng(0)), schema, ledger)
    release = dpi.count(data).measure(dpi.ZCDP(0.1))
    for one in (schema, ledger, data, dpi.ZCDP(0.1), release):
        page = _checked_html(one)
        page = page.replace(release.charge_ids[0], "")  # random digits
        assert "<survey>" not in page
        assert "<at" not in page
        assert "1234" not in page
        assert "1,234" not in page
    assert "&lt;survey&gt;" in ledger._repr_html_()
    assert "Age &lt;at interview&gt;" in data._repr_html_()


def test_the_number_of_rows_is_not_shown_where_it_is_public():
    schema = dpi.Schema(x=dpi.Real(0, 1))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), neighbors="replace_one")
    data = dpi.PrivateData(schema.sample(1234, np.random.default_rng(0)), schema, ledger)
    assert "1,234" not in data._repr_html_()
