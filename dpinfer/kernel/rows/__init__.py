"""Row sums: what is forced on every unit, and what it is priced by."""
