"""Scripts that measure what the documentation claims; each ends in a table and a figure."""
