"""How pages look; how tables look is in `dpinfer.display.report`."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --around: #f2f4f7; --ink: #1c2430; --faint: #4a5563;
  --line: #d5dbe2; --link: #1f5f99; --shade: #f1f4f7; --note: #fdf6e0; --noted: #d0a02f; }
@media (prefers-color-scheme: dark) { :root { --ground: #151a21; --around: #0d1116; --ink: #dde3ea;
  --faint: #a3adb9; --line: #343d48; --link: #7db9f0; --shade: #1f2630; --note: #2b2616; --noted: #b98d2c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--around); color: var(--ink); -webkit-text-size-adjust: 100%;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem 2.6rem 3rem; background: var(--ground); }
h1 { font-size: 2rem; line-height: 1.2; margin: .8rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.6rem 0 .8rem; padding-top: .9rem;
  border-top: 2px solid var(--link); overflow-wrap: anywhere; }
p, li { overflow-wrap: anywhere; }
p, ul { margin: .8rem 0; max-width: 46rem; }
ul { padding-left: 1.3rem; }
a { color: var(--link); }
.authors { color: var(--faint); font-size: 1.05rem; }
nav { background: var(--shade); border-radius: 6px; padding: .7rem 1rem; margin: 1.4rem 0; }
nav ol { margin: 0; padding-left: 1.6rem; }
@media (min-width: 48rem) { nav ol { columns: 2; column-gap: 2.5rem; } }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .88em; background: var(--shade); border-radius: 3px; padding: 0 .25em; overflow-wrap: anywhere; }
pre { font-size: .82rem; line-height: 1.45; padding: .8rem 1rem; margin: 1rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--shade); border-left: 3px solid var(--line); border-radius: 0 4px 4px 0; }
pre.python { border-left-color: var(--link); }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { font-size: .9rem; color: var(--faint); margin: .5rem 0; max-width: 46rem; }
div.dpinfer { font-size: .9rem; margin: 1.1rem 0; }
.note { border: 1px solid var(--noted); border-left-width: 5px; background: var(--note); border-radius: 4px;
  padding: .7rem 1rem; margin: 1.2rem 0; max-width: 48rem; break-inside: avoid; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line); font-size: .85rem;
  color: var(--faint); }
@media (max-width: 40rem) { main { padding: .8rem 1rem 2rem; } h1 { font-size: 1.5rem; } }
@media print {
  :root { color-scheme: light; --ground: #fff; --around: #fff; --ink: #000; --faint: #333; --line: #bbb;
    --link: #123e66; --shade: #f4f4f4; --note: #fff; --noted: #888; }
  @page { margin: 16mm 14mm; }
  body { font-size: 10pt; } main { max-width: none; padding: 0; } nav { display: none; }
  h1 { font-size: 18pt; } h2 { font-size: 13pt; break-after: avoid; margin-top: 1.6rem; }
  p, li { orphans: 3; widows: 3; } p, ul, .note { max-width: none; }
  tr { break-inside: avoid; } thead { display: table-header-group; } caption { break-after: avoid; }
  div.dpinfer { font-size: 8.5pt; overflow: visible; } pre { font-size: 8pt; }
  figure img { max-height: 90mm; max-width: 118mm; width: auto; } a { text-decoration: none; }
  footer { margin-top: 1rem; break-before: avoid; }
}
"""
