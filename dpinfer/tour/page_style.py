"""How the page of a report looks."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f5f7; color: #1c2430; -webkit-text-size-adjust: 100%;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 1.5rem 2.2rem 3rem; background: #fff; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .8rem 0 1rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.6rem 0 .8rem; padding-top: .9rem;
  border-top: 2px solid #1f4e79; }
p { margin: .8rem 0; }
nav { background: #eef3f8; border-radius: 6px; padding: .7rem 1rem; margin: 1.4rem 0; }
nav ol { margin: 0; padding-left: 1.4rem; }
nav a { color: #1f4e79; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .9em; background: #eef1f4; border-radius: 3px; padding: 0 .25em; overflow-wrap: anywhere; }
pre { font-size: .82rem; line-height: 1.45; overflow-x: auto; padding: .8rem 1rem; margin: 1rem 0;
  background: #f4f6f8; border-left: 3px solid #b9c4d0; border-radius: 0 4px 4px 0; }
pre.python { border-left-color: #1f4e79; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure img { display: block; width: 100%; max-width: 44rem; height: auto; margin: 0 auto; }
figcaption { font-size: .9rem; color: #4a5563; margin: .5rem 0; }
.table figcaption { font-weight: 600; color: #1c2430; }
.table ul { font-size: .85rem; color: #4a5563; padding-left: 1.2rem; margin: .5rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; min-width: 60%; }
th, td { padding: .32rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e1e5ea; }
thead th { white-space: normal; vertical-align: bottom; border-bottom: 2px solid #8593a3; }
tbody th { font-weight: 500; }
th:first-child, td.words { text-align: left; }
td.words { white-space: normal; }
.note { border: 1px solid #d9b44a; border-left-width: 5px; background: #fdf8e7; border-radius: 4px;
  padding: .7rem 1rem; margin: 1.2rem 0; break-inside: avoid; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid #e1e5ea; font-size: .85rem; }
@media (min-width: 56rem) { pre.output { white-space: pre-wrap; } }
@media (max-width: 40rem) { main { padding: .8rem 1rem 2rem; } h1 { font-size: 1.5rem; }
  th, td { padding: .3rem .45rem; } }
@media print { body { background: #fff; font-size: 10.5pt; } main { max-width: none; padding: 0; }
  nav { display: none; } h2 { break-after: avoid; } pre { white-space: pre-wrap; break-inside: avoid; }
  .wide { overflow: visible; } table { font-size: 8.5pt; } }
"""
