"""Times, as ratios to other work on the same machine."""
