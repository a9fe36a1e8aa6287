"""Least squares read from cross-products, which most tests of tables, releases and kernels were written for."""

from functools import partial

import dpinfer as dpi

gram_ols = partial(dpi.ols, method="gram")
