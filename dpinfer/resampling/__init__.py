"""Resampling: models fitted to secret blocks of rows, and the bootstrap of sums over rows."""
