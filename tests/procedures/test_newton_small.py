"""Regressions by rounds of few rows, where noise shows rows that cannot be."""

import numpy as np
import pandas as pd

import dpinfer as dpi


def test_a_centre_that_no_residual_can_have_is_not_moved_to():
    """Noise put rows at 2^150 standard deviations with these draws: the next round had no frame, after the charge."""
    rng = np.random.default_rng([139, 101, 1])
    values = np.clip(rng.normal(size=101), -5, 5)
    schema = dpi.Schema(x=dpi.Real(-5, 5, missing=0.0, impossible=0.0))
    data = dpi.PublicData(pd.DataFrame({"x": values}), schema, rng=rng, neighbors="replace_one")
    results = dpi.rlm("x ~ 1", data).fit(dpi.PureDP(1))
    stages = results.release.stages
    settings = [stage.settings for stage in stages if "point" in stage.settings]
    unit = next(one["unit"] for one in settings if "unit" in one)
    assert len(settings) == 3
    assert max(abs(one["point"][0]) for one in settings) <= 2 * 10 / unit + 1
    assert results.flags
