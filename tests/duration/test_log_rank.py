"""Log-rank tests where times are finer than the intervals."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi


@pytest.mark.parametrize("censoring", ["end", "middle"])
def test_intervals_that_are_wide_for_unequal_censoring_are_named(censoring):
    rng = np.random.default_rng(2)
    group = rng.random(4000) < 0.5
    life, end = rng.exponential(30, 4000), np.where(group, rng.uniform(48, 60, 4000), rng.exponential(20, 4000))
    frame = pd.DataFrame({"t": np.minimum(life, end).clip(0, 60), "e": life <= end, "g": np.where(group, "a", "b")})
    schema = dpi.Schema(t=dpi.Real(0, 60), e=dpi.Boolean(), g=dpi.Category(["a", "b"]))
    data = dpi.PublicData(frame, schema, rng=rng)
    results = dpi.survival("t", "e", data, times=5, by="g", censoring=censoring).fit(dpi.ZCDP(0.5))
    test = results.logrank(draws=1000)
    assert any("wide for the censoring" in one for one in test.flags)
    assert not any("at risk for" in one for one in test.notes)
    assert any("wide for the censoring" in one for one in results.flags) == (censoring == "end")
