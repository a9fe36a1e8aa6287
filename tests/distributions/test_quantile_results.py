"""Results of quantiles and distribution functions: frames, tables, plots, and releases that are read or refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.distributions.results import read_probabilities
from dpinfer.distributions.tree import cdf_interval, simultaneous_width
from dpinfer.errors import InferenceError, OptionError
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10, missing=0, impossible=0), k=dpi.Integer(0, 30), g=dpi.Category(["a_1", "b"]), b=dpi.Boolean()
)
PRICE = dpi.ZCDP(0.1)


def data_of(rows=400, neighbors="add_remove", seed=1):
    rng = np.random.default_rng(seed)
    return dpi.PublicData(SCHEMA.sample(rows, rng), SCHEMA, rng=rng, neighbors=neighbors)


ASKED = {
    "quantile": lambda **o: dpi.quantile("x", q=0.5, resolution=16, **o),
    "quantiles": lambda **o: dpi.quantile("k", q=[0.1, 0.5], by=["b"], method="exponential", resolution=16, **o),
    "tree": lambda **o: dpi.quantile("k", q=[0.2, 0.7], where="x > 1", target="data", inference="wald", **o),
    "cdf": lambda **o: dpi.cdf("x", resolution=16, **o),
    "cdfs": lambda **o: dpi.cdf("k", by=["g", "x > 5"], where="b", resolution=16, target="data", **o),
}


def released(name, **options):
    return ASKED[name](data=data_of(**options)).measure(PRICE)


# Reading


def test_options_change_the_inference_and_not_the_release():
    release = released("tree")
    default = release.infer()
    assert "wald" in str(default.summary())
    assert default.noise_share.min() > 0.999
    score = release.infer(inference="score", target="population", q=[0.7, 0.2])
    assert "score" in str(score.summary())
    assert score.params.tolist() == default.params.tolist()[::-1]
    assert (score.bse.to_numpy() > default.bse.to_numpy()[::-1]).all()
    quantiles = {"inference": ["bayes"], "target": ["sample"], "q": [2.0, []]}
    functions = {"target": ["sample"], "replicates": [50, 999.0], "seed": [-1, 1.5], "q": [0.5]}
    for held, worse in ((release, quantiles), (released("cdf"), functions)):
        for name, values in worse.items():
            for value in values:
                with pytest.raises(OptionError, match=f"{name}="):
                    held.infer(**{name: value})
    for question in (dpi.cdf("x"), dpi.median("x")):
        with pytest.raises(InferenceError, match="another question"):
            question.infer(dpi.gram(["x"], data_of()).measure(PRICE))


DAMAGE = {
    "column": [None, 3, "z", "g", "b"],
    "resolution": [None, 8, 12, 16.0, "16", 2**15, 0, -16, True],
    "axes": [None, 3, [3], [{}], [{"column": "z"}], [{"column": "k"}], [{"column": "x"}], []],
    "where": [3, [], "x +", "z > 1", "x + 1"],
    "probabilities": [None, 0.5, [], [2], ["0.5"], [True, 0.5], [0.5], [None, 0.1], [-0.1, 0.5]],
    "method": [None, "tree", "laplace", 3],
    "target": [None, "sample", 3],
    "inference": [None, "bayes", []],
    "continuous": [None, "yes", 1],
    "schema": [None, {}, [], "k"],
}


def test_damaged_questions_are_refused():
    assert_damage_is_refused(released("quantiles"), DAMAGE)


def test_damaged_choices_are_refused():
    release = released("quantiles")
    stages = json.loads(release.to_json())["stages"]
    (place,) = (place for place, one in enumerate(stages) if one["law"]["family"] == "gumbel")
    sums, choice = stages[place]["sums"], f"/stages.{place}"
    assert len(sums) == 4
    assert_damage_is_refused(release, {f"{choice}.sums.3.value": [-1, 31, 4.0, True, None, "1", [1]]})
    for kept in ([], sums[:1], sums[:3], [*sums, sums[-1]]):
        law = stages[place]["law"] | {"scales": [[1000.0, len(kept)]] if kept else []}
        assert_damage_is_refused(release, {choice: [stages[place] | {"sums": kept, "law": law}]})
    assert_damage_is_refused(release, {"/stages": [[], [stages[place]], stages * 2, [*stages, stages[place]]]})


def test_damaged_sums_are_refused():
    release = released("cdf")
    entries = {"value": [1.5, None], "step": [0], "name": ["level 9, node 9", 3]}
    assert_damage_is_refused(release, {f"/stages.0.sums.4.{name}": values for name, values in entries.items()})
    sums = json.loads(release.to_json())["stages"][0]["sums"]
    assert_damage_is_refused(release, {"/stages.0.sums": [sums[:-1], sums[::-1], []]})


RUNNING = "run data blocks quantiles sums sources people sampling workers"
"""Modules of the kernel that read rows or draw noise."""

SCRIPT = """
import sys, types
package = types.ModuleType("dpinfer")
package.__path__ = [sys.argv[1]]
sys.modules["dpinfer"] = package
import dpinfer.procedures, dpinfer.distributions.quantiles, dpinfer.selection.question
from dpinfer.release import read_release
for path in sys.argv[3:]:
    results = read_release(path).infer()
    print(results.summary())
running = {"opendp", *(f"dpinfer.kernel.{name}" for name in sys.argv[2].split())}
rows = sorted(running & set(sys.modules))
assert not rows, rows
"""


def test_a_reader_needs_no_code_that_reads_rows(tmp_path):
    """In a process that imports nothing of what runs the kernel the results are the same."""
    releases = [released("quantiles"), released("cdf"), dpi.most_frequent("g", data_of()).measure(PRICE)]
    paths = [tmp_path / f"{place}.json" for place in range(3)]
    for release, path in zip(releases, paths, strict=True):
        release.save(path)
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(Path(dpi.__file__).parent), RUNNING]
    command += map(str, paths)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    told = "".join(f"{release.infer().summary()}\n" for release in releases)
    assert done.stdout == told


# The distribution function


def test_the_frame_holds_the_function_its_intervals_and_its_band():
    results = released("cdfs").infer()
    assert results.labels == ["g=a_1, x > 5=False", "g=a_1, x > 5=True", "g=b, x > 5=False", "g=b, x > 5=True"]
    frame = results.frame(alpha=0.1)
    assert list(frame.columns) == ["group", "x", "cdf", "lower", "upper", "band lower", "band upper"]
    halves = results.band_width(0.1)
    assert halves.index.tolist() == results.labels
    for label, tree in zip(results.labels, results.trees, strict=True):
        part = frame[frame["group"] == label]
        assert part["x"].tolist() == tree.edges.tolist()
        assert part["cdf"].tolist() == tree.cdf.tolist()
        ends = cdf_interval(tree, 0.1, dependence=0.0)
        np.testing.assert_array_equal(part["lower"], np.minimum(ends[:, 0], tree.cdf))
        np.testing.assert_array_equal(part["upper"], np.maximum(ends[:, 1], tree.cdf))
        half = simultaneous_width(tree, 0.1, dependence=0.0)
        assert halves[label] == half
        np.testing.assert_array_equal(part["band lower"], np.clip(tree.cdf - half, 0, 1))
        np.testing.assert_array_equal(part["band upper"], np.clip(tree.cdf + half, 0, 1))
    assert results.nobs == pytest.approx(sum(tree.total for tree in results.trees))


def test_the_function_is_evaluated_between_edges():
    results = released("cdf", neighbors="replace_one").infer()
    assert results.nobs == 400
    found = results([-1.0, 0.0, 3.3, 10.0, 99.0])
    assert found.index.name == "x"
    assert found["cdf"].tolist()[:2] == [0.0, 0.0]
    assert found["cdf"].tolist()[3:] == [1.0, 1.0]
    tree = results.trees[0]
    assert results(3.3)["cdf"].item() == np.interp(3.3, tree.edges, tree.cdf)
    assert list(released("cdfs").infer()(2.0).columns) == released("cdfs").infer().labels


def test_the_band_follows_level_target_and_seed():
    release = released("cdf")
    results = release.infer()
    widths = [results.band_width(alpha).iloc[0] for alpha in (0.5, 0.05, 0.01)]
    assert widths == sorted(widths)
    assert results.band_width().equals(release.infer().band_width())
    assert release.infer(seed=1).band_width().iloc[0] != widths[1]
    assert release.infer(target="data").band_width().iloc[0] < widths[1]
    assert (results.frame()["upper"] - results.frame()["lower"]).max() < 2 * widths[1]


def test_without_noise_the_function_is_that_of_the_rows():
    frame = SCHEMA.sample(333, np.random.default_rng(2))
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3))
    for column in ("x", "k"):
        found = dpi.cdf(column, data).fit(dpi.ZCDP(1e9)).frame()
        below = [(frame[column] < edge).mean() for edge in found["x"][:-1]]
        np.testing.assert_allclose(found["cdf"][:-1], below, atol=1e-4)
        assert found["cdf"].iloc[-1] == 1.0
    assert found["x"].tolist() == [0, *(np.arange(1, 31) - 0.5), 30]


def test_bad_levels_are_refused():
    results = released("cdf").infer()
    for alpha in (0, 1, -1, "0.05", np.nan):
        for ask in (results.frame, results.band_width, results.summary, lambda alpha: results.plot(alpha=alpha)):
            with pytest.raises(OptionError, match="alpha="):
                ask(alpha)


# Tables and plots


def test_the_summary_is_a_table_of_quantiles_with_its_guarantee():
    results = released("cdf").infer()
    summary = results.summary()
    frame = results.quantile([0.01, 0.5, 0.99]).summary_frame()
    for text in (str(summary), summary.as_html(), summary.as_latex(), summary.as_markdown()):
        for told in ("Private distribution function of x", "Guarantee", "(noisy)", "Simulated from public data"):
            assert told in text
        for value in frame["quantile"]:
            assert f"{value:.4f}"[:5] in text
        assert "nan" not in text.lower()
    assert f"+- {results.band_width().iloc[0]:.4g}" in str(summary)
    assert "The band is simultaneous" in str(summary)
    assert repr(results) == "<CDFResults: x, 16 leaves, public data, no privacy>"


def test_private_results_name_their_charge_and_price():
    frame = SCHEMA.sample(100, np.random.default_rng(0))
    for ask in (ASKED["cdf"], ASKED["quantile"]):
        data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.GDP(0.5)))
        results = ask(data=data).fit(dpi.GDP(0.5))
        text = str(results.summary())
        assert "GDP(mu=0.5)" in text
        assert results.release.charge_ids[0] in text


def test_quantiles_are_shown_in_every_format():
    results = released("quantiles").infer()
    frame = results.summary_frame()
    assert list(frame.columns)[:1] == ["quantile"]
    assert frame.index.tolist() == [(False, 0.1), (False, 0.5), (True, 0.1), (True, 0.5)]
    assert frame.index.names == ["b", "q"]
    assert results.params.index.tolist() == ["0.1[b=False]", "0.5[b=False]", "0.1[b=True]", "0.5[b=True]"]
    for text in (str(results.summary()), results.to_html(), results.to_latex(), results.to_markdown()):
        assert "Private quantiles" in text
        for value in frame["quantile"]:
            assert f"{value:g}" in text
    assert "Quantiles were chosen by the exponential mechanism" in str(results.summary())
    wald = results.with_inference("wald")
    assert wald.params.equals(results.params)
    assert wald.bse.equals(results.bse)


def test_what_is_drawn_is_the_frame():
    for name in ("cdf", "cdfs"):
        results = released(name).infer()
        ax = results.plot(alpha=0.1)
        frame = results.frame(alpha=0.1)
        groups = [frame] if name == "cdf" else [frame[frame["group"] == label] for label in results.labels]
        assert len(ax.lines) == len(ax.collections) == len(groups)
        for line, band, part in zip(ax.lines, ax.collections, groups, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), part["x"])
            np.testing.assert_array_equal(line.get_ydata(), part["cdf"])
            drawn = {(float(x), float(y)) for x, y in band.get_paths()[0].vertices}
            x, lower, upper = (part[name].tolist() for name in ("x", "band lower", "band upper"))
            for ends in (x[:-1], x[1:]):  # a step: lower from the edge before, upper from the edge behind
                assert set(zip(ends, lower[:-1], strict=True)) <= drawn
                assert set(zip(ends, upper[1:], strict=True)) <= drawn
        assert ax.get_xlabel() == results.column
        assert "90% band" in ax.get_title()
        legend = ax.get_legend()
        told = [] if legend is None else [text.get_text() for text in legend.get_texts()]
        assert told == ([] if name == "cdf" else results.labels)
        _, own = plt.subplots()
        assert results.plot(own) is own
        assert results.quantile([0.25, 0.75]).plot() is not None
        plt.close("all")


def test_probabilities_are_read_from_one_number_or_several():
    assert read_probabilities(0.5) == (0.5,)
    assert read_probabilities(1) == (1.0,)
    assert read_probabilities(np.float64(0.25)) == (0.25,)
    for several in ([0.9, 0.1], (0.9, 0.1), np.array([0.9, 0.1]), pd.Series([0.9, 0.1])):
        assert read_probabilities(several) == (0.9, 0.1)
    for bad in ({0.5}, {"q": 0.5}, object(), 1j, [0.5, None]):
        with pytest.raises(OptionError, match="q="):
            read_probabilities(bad)
