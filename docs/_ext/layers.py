"""The picture of the package's folders, drawn from its imports."""

import ast
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

import dpinfer

ROOT = Path(dpinfer.__file__).parent


def folder_of(module: str) -> str:
    """Return the folder of a module; modules directly in the package are one."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (ROOT / parts[1]).is_dir() else "dpinfer"


def imports() -> Counter[tuple[str, str]]:
    """Count import lines from one folder to another, those for types alone included."""
    found: Counter[tuple[str, str]] = Counter()
    for path in ROOT.rglob("*.py"):
        own = folder_of(".".join(("dpinfer", *path.relative_to(ROOT).with_suffix("").parts)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpinfer."):
                found[own, folder_of(node.module)] += 1
    return Counter({pair: number for pair, number in found.items() if pair[0] != pair[1] and "dpinfer" not in pair})


def ranks(pairs: Counter[tuple[str, str]]) -> dict[str, int]:
    """Return how many folders lie, one upon another, below each."""
    below = {name: {low for high, low in pairs if high == name} for pair in pairs for name in pair}
    found: dict[str, int] = {}
    while len(found) < len(below):
        ready = [name for name in below if name not in found and below[name] <= found.keys()]
        ready = ready or [min(below.keys() - found.keys(), key=lambda name: len(below[name] - found.keys()))]
        found |= {name: 1 + max((found[low] for low in below[name] & found.keys()), default=-1) for name in ready}
    return found


def draw(ax: Axes | None = None) -> Axes:
    """Draw each folder above all that it imports; a line is as wide as it is often imported."""
    pairs = imports()
    height = ranks(pairs)
    levels = [
        sorted(name for name, rank in height.items() if rank == level) for level in range(max(height.values()) + 1)
    ]
    place = {
        name: ((column + 0.5) / len(level), row)
        for row, level in enumerate(levels)
        for column, name in enumerate(level)
    }
    ax = plt.figure(figsize=(8, 9)).gca() if ax is None else ax
    for (high, low), number in pairs.items():
        (x, y), (u, v) = place[high], place[low]
        ax.plot([x, u], [y, v], color="0.6", linewidth=0.4 + 0.04 * number, alpha=0.6, zorder=1)
    for name, (x, y) in place.items():
        label = f"{name}\n{len([*(ROOT / name).rglob('*.py')])} files"
        ax.text(x, y, label, ha="center", va="center", fontsize=8, bbox={"fc": "w", "ec": "0.3"})
    ax.set(xlim=(0, 1), ylim=(-0.5, len(levels) - 0.5))
    ax.set_axis_off()
    return ax
