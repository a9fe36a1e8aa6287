"""Pages for publication, each one HTML file, and tables of results side by side; no row is ever read."""
