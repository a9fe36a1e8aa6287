"""First looks at rows: their quality, and bounds that nobody knows."""
