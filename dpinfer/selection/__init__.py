"""Selection: choices from candidates and comparisons with thresholds, by noisy sums over rows."""
