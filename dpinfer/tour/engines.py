"""A chapter on rows that are not in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dpinfer as dpi
from dpinfer.reporting.page import Block, Code, Tables, Text
from dpinfer.tour.people import MOST_ROWS

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["engines_chapter"]

PRICE = dpi.GDP(0.5)


def engines_chapter(tour: Tour) -> list[Block]:
    """Ask of a query, and show that file, query and data frame give the same release."""
    script = tour.run(f"""\
import tempfile
from pathlib import Path

import duckdb
import numpy as np

with tempfile.TemporaryDirectory() as folder:  # stands for where the rows are
    file = Path(folder, "visits.parquet")
    people.to_parquet(file)
    database = duckdb.connect()
    query = f"select * from '{{file}}' where physlm > 0"  # people with a physical limitation
    limited = dpi.PrivateData((database, query), visits_schema, visits_ledger, id="person", max_rows={MOST_ROWS})
    limited_visits = dpi.mean("mdvis", limited, by="hlthg").fit(dpi.{PRICE!r})
    print(limited_visits.summary())

    forms = {{"data frame": people, "file": file, "query": database.sql(f"from '{{file}}'")}}
    seeded = {{
        name: dpi.mean(
            "mdvis",
            dpi.PublicData(form, visits_schema, rng=np.random.default_rng(1), id="person", max_rows={MOST_ROWS}),
        ).measure(dpi.{PRICE!r})
        for name, form in forms.items()
    }}
print({{name: release.values[:3] for name, release in seeded.items()}})""")
    limited, seeded = tour["limited_visits"], tour["seeded"]
    told = {name: release.to_json() for name, release in seeded.items()}
    same = [name for name in told if told[name] == told["data frame"]]
    return [
        Text("""Rows need not be in memory. A path, a query of DuckDB, a data frame of Dask or Spark stand where the
            data frame stood: rows are mapped to whole numbers where they are, and noise is drawn once, here."""),
        script,
        Tables.of(limited, "Visits of people with a limitation, 95% interval"),
        Text(f"""Sums of whole numbers do not depend on who adds them up. With a fixed seed, which only public data
            take, the same release comes from a {", a ".join(same)}."""),
        Code(
            "\n".join(f"{name:>10}: {', '.join(map(str, release.values[:3]))}, ..." for name, release in seeded.items())
        ),
    ]
