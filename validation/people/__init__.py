"""People with several rows."""
