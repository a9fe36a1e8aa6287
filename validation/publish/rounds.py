"""Write the shares of the price that stages of a regression by iterations have into their page."""

from __future__ import annotations

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.models import MODELS
from dpinfer.regression.question import Newton
from validation.common.pages import Block
from validation.publish.trusted import ROOT

PAGE = ROOT / "docs" / "glm.md"
START, END = "<!-- rounds: made by python -m validation.publish.rounds -->", "<!-- end of rounds -->"

SCHEMA = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Boolean())
PRICES = {"Gaussian": dpi.ZCDP(1), "Laplace": dpi.PureDP(1)}

_STAGES = ("centres", "spreads", "start", "counts", "first", "again", "recounts", "second")


def tables() -> str:
    """Return the shares of the stages, by model and noise."""
    lines = ["| model | noise | " + " | ".join(_STAGES) + " |", "|---" * (len(_STAGES) + 2) + "|"]
    for name, model in MODELS.items():
        for noise, price in PRICES.items():
            plan = Newton(formula="y ~ x", model=name).plan(Context(SCHEMA, "add_remove", price))
            mine = [f"{float(plan.share(one)):.3f}".lstrip("0") if one in plan.kinds else "" for one in _STAGES]
            lines.append(f"| {model.title} | {noise} | " + " | ".join(mine) + " |")
    return "\n".join(lines)


def written() -> str:
    """Return what stands on the page."""
    return Block(PAGE, START, END).read()


def main() -> None:
    """Rewrite the table."""
    Block(PAGE, START, END).write(tables())
    print(f"wrote shares of {len(MODELS)} models into {PAGE.name}")


if __name__ == "__main__":
    main()
