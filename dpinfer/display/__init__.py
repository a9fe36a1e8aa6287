"""How things are shown: numbers, tables as text and as HTML, progress and log."""
