"""Studies of procedures: coverage, planning, audits."""
