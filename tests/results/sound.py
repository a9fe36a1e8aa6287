"""What holds of every result, whatever was released."""

import numpy as np


def sound(results, *, held=True):
    """Nothing is missing but what is not determined; errors are positive, intervals and p-values in order.

    Intervals hold the estimates, unless ``held`` is False: noise may have moved those of a regression.
    """
    params, ends = results.params.to_numpy(), results.conf_int().to_numpy()
    known = ~np.isnan(params)
    assert (~known).any() == any("not determined" in flag for flag in results.flags) or not held
    assert np.isfinite(params[known]).all()
    assert (results.bse.to_numpy()[known] > 0).all()
    assert results.noise_share[known].between(0, 1 + 1e-9).all()
    assert not np.isnan(ends).any()
    assert (ends[:, 0] <= ends[:, 1]).all()
    slack = 1e-9 * (1 + np.abs(params[known]))
    inside = (ends[known, 0] <= params[known] + slack) & (params[known] <= ends[known, 1] + slack)
    assert inside.all() or not held
    assert results.pvalues.between(0, 1).all()
    assert ("nan" in str(results.summary()).lower()) <= (~known).any()
