"""The guided tour on real data, and the report that it writes; see ``python -m dpinfer``."""
