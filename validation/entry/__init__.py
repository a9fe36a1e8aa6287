"""Safe entry: quality, bounds, and the first minutes."""
