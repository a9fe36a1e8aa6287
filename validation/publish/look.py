"""Look at pages of HTML in a browser: ``python -m validation.publish.look PAGE.html ... [--shots FOLDER]``.

At each width, in light and dark, the page must not be wider than the window; a screenshot is kept where a folder is
named. The command ends with 1 where a page scrolls sideways, and with 2 where there is no browser.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS, HEIGHT = (390, 1280, 1920), 3000
_DARK = "--blink-settings=preferredColorScheme=0"
_INSIDE = """<script>addEventListener("load", () => parent.postMessage("measured " +
[innerWidth, document.documentElement.scrollWidth, matchMedia("(prefers-color-scheme: dark)").matches].join(" "), "*"))
</script>"""
_AROUND = """<!DOCTYPE html><html><head><title></title></head><body><script>
addEventListener("message", event => { document.title = event.data; });
</script><iframe src="inside.html" style="width:%dpx;height:900px;border:0"></iframe></body></html>"""
"""A window is never as narrow as a phone, but a frame in it is."""


def _run(browser: str, width: int, dark: bool, *options: str) -> str:
    fixed = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        *([_DARK] if dark else []),
    ]
    command = [*fixed, f"--window-size={width},{HEIGHT}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def measured(browser: str, page: Path, width: int, dark: bool) -> tuple[int, int, bool]:
    """Return the width of the window (a frame), that of the page in it, and whether it is dark."""
    with tempfile.TemporaryDirectory() as folder:
        inside, around = Path(folder, "inside.html"), Path(folder, "around.html")
        base = f'<base href="{page.resolve().parent.as_uri()}/">'
        text = page.read_text(encoding="utf-8").replace("<head>", f"<head>{base}", 1)
        inside.write_text(text.replace("</body>", f"{_INSIDE}</body>"), encoding="utf-8")
        around.write_text(_AROUND % width, encoding="utf-8")
        shown = _run(browser, width + 40, dark, "--virtual-time-budget=4000", "--dump-dom", around.as_uri())
    found = re.search(r"<title>measured (\d+) (\d+) (true|false)</title>", shown)
    assert found is not None, "the page did not load"
    return int(found[1]), int(found[2]), found[3] == "true"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--browser", default="chromium")
    given = parser.parse_args()
    browser = shutil.which(given.browser)
    if browser is None:
        print(f"there is no {given.browser} here", file=sys.stderr)
        return 2
    failed = False
    for page in given.pages:
        for width in WIDTHS:
            for dark in (False, True):
                window, wide, is_dark = measured(browser, page, width, dark)
                right = wide <= window == width and is_dark == dark
                failed = failed or not right
                theme = "dark" if dark else "light"
                print(f"{'ok  ' if right else 'FAIL'} {page.name}: {wide} px in a window of {window}, {theme}")
                if given.shots is not None:
                    shot = given.shots / f"{page.stem}-{width}-{theme}.png"
                    _run(browser, width, dark, f"--screenshot={shot.resolve()}", page.resolve().as_uri())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
