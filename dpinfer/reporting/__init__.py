"""HTML pages for publication, and tables that compare results; no row is ever read."""
