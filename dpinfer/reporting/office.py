"""Tables of results as Word and Excel files, ruled as in a journal, with notes below."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Protocol

from dpinfer.results.printing import guarantee

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from dpinfer.release.release import AnyRelease

_NO_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold."""

_NUMBER = re.compile(r"(\(?)(-?)(\d[\d,]*)(?:\.(\d+))?(e[+-]\d+)?(\)?)(\**)")
"""A number as tables show it: in parentheses where it is a standard error, starred where it is an estimate."""

_SMALL = 9
"""Size of the notes, in points."""


class _Printed(Protocol):
    """The interface of a printed table: `SummaryTable`."""

    @property
    def title(self) -> str: ...
    @property
    def facts(self) -> pd.DataFrame: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def releases(self) -> Sequence[AnyRelease]: ...

    def as_frame(self) -> pd.DataFrame:
        """Return the cells as texts, with facts below the estimates."""


def _rows(table: _Printed) -> Iterator[tuple[list[str], frozenset[str]]]:
    """Yield the table line by line, column names first, with the ruled edges of each line."""
    shown = table.as_frame()
    lines = [[str(name) for name in shown.columns], *shown.to_numpy().tolist()]
    last = len(lines) - 1
    ruled = {0: {"top", "bottom"}, last - len(table.facts): {"bottom"}, last: {"bottom"}}
    for place, line in enumerate(lines):
        yield [_NO_XML.sub("\ufffd", cell) for cell in line], frozenset(ruled.get(place, ()))


def _sentences(table: _Printed) -> list[str]:
    """Return the notes, guarantees first, and the warnings."""
    stated = {guarantee(release) for release in table.releases}
    notes = sorted(table.notes, key=lambda note: not any(one in note for one in stated))
    marked = [f"[{place}] {note}" for place, note in enumerate(notes, 1)]
    return [_NO_XML.sub("\ufffd", text) for text in [*marked, *(f"Warning: {one}" for one in table.warnings)]]


def word_file(table: _Printed) -> bytes:
    """Return a table as a Word document: a title, a ruled table with a repeating header, and notes."""
    try:
        import docx  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise _lacking("Word", "python-docx", "word", error) from error
    document = docx.Document()
    title = _NO_XML.sub("\ufffd", table.title)
    _describe(document.core_properties, title)
    heading = document.add_paragraph()
    heading.add_run(title).bold = True
    heading.paragraph_format.keep_with_next = True
    rows = list(_rows(table))
    drawn = document.add_table(rows=len(rows), cols=len(rows[0][0]))
    for place, ((line, edges), row) in enumerate(zip(rows, drawn.rows, strict=True)):
        for cell, text, across in zip(row.cells, line, range(len(line)), strict=True):
            paragraph = cell.paragraphs[0]
            paragraph.add_run(text)
            paragraph.alignment = docx.enum.text.WD_ALIGN_PARAGRAPH.RIGHT if across else None
            paragraph.paragraph_format.space_after = docx.shared.Pt(0)
            paragraph.paragraph_format.keep_with_next = place < len(rows) - 1 and len(rows) < 40
            _rule(cell._tc.get_or_add_tcPr(), edges)
    row = drawn.rows[0]._tr.get_or_add_trPr()
    row.append(docx.oxml.OxmlElement("w:tblHeader"))
    for text in _sentences(table):
        paragraph = document.add_paragraph()
        paragraph.paragraph_format.space_after = docx.shared.Pt(2)
        paragraph.add_run(text).font.size = docx.shared.Pt(_SMALL)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def _rule(properties: Any, edges: frozenset[str]) -> None:
    """Rule some edges of a Word cell."""
    from docx.oxml import OxmlElement  # noqa: PLC0415
    from docx.oxml.ns import qn  # noqa: PLC0415

    if not edges:
        return
    borders = OxmlElement("w:tcBorders")
    for edge in sorted(edges, reverse=True):  # the schema wants the top first
        line = OxmlElement(f"w:{edge}")
        for name, value in {"val": "single", "sz": "6", "space": "0", "color": "auto"}.items():
            line.set(qn(f"w:{name}"), value)
        borders.append(line)
    properties.append(borders)


def excel_file(table: _Printed) -> bytes:
    """Return a table as a workbook, with numbers formatted as in the table and names never as formulas."""
    try:
        import openpyxl  # noqa: PLC0415  (an extra)
        from openpyxl.styles import Alignment, Border, Font, Side  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _lacking("Excel", "openpyxl", "excel", error) from error
    book = openpyxl.Workbook()
    _describe(book.properties, _NO_XML.sub("\ufffd", table.title))
    sheet = book.active
    sheet.title = "Results"

    def write(down: int, across: int, text: str) -> Any:
        cell = sheet.cell(down, across)
        cell.value, cell.data_type = text, "s"  # a text, also where it begins as a formula does
        return cell

    write(1, 1, _NO_XML.sub("\ufffd", table.title)).font = Font(bold=True)
    rows = list(_rows(table))
    for down, (line, edges) in enumerate(rows, 3):
        for across, text in enumerate(line, 1):
            number = _number(text) if down > 3 and across > 1 else None
            if number is None:
                cell = write(down, across, text)
            else:
                cell = sheet.cell(down, across, number[0])
                cell.number_format = number[1]
            cell.alignment = Alignment(horizontal="right" if across > 1 else "left")
            cell.border = Border(**{edge: Side(style="thin") for edge in edges})
    for across in range(1, len(rows[0][0]) + 1):
        longest = max(len(line[across - 1]) for line, _ in rows)
        sheet.column_dimensions[openpyxl.utils.get_column_letter(across)].width = min(longest, 48) + 2
    for down, text in enumerate(_sentences(table), len(rows) + 4):
        write(down, 1, text).font = Font(size=_SMALL)
    sheet.freeze_panes = "B4"
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def _number(text: str) -> tuple[float, str] | None:
    """Return a number and the Excel format that shows it as in the table; None if a text is not a number."""
    found = _NUMBER.fullmatch(text)
    if found is None or bool(found[1]) != bool(found[6]):
        return None
    opened, sign, whole, decimals, power, closed, stars = found.groups(default="")
    value = float(f"{sign}{whole.replace(',', '')}.{decimals or 0}{power}")
    digits = "." + "0" * len(decimals) if decimals else ""
    shown = ("#,##0" if "," in whole else "0") + digits + ("E+00" if power else "")
    return value, "".join(
        [f'"{opened}"' * bool(opened), shown, f'"{closed}"' * bool(closed), f'"{stars}"' * bool(stars)]
    )


def _describe(properties: Any, title: str) -> None:
    """Describe a file, naming no person as its author."""
    properties.title = title
    for name in ("author", "creator", "comments", "description", "last_modified_by", "lastModifiedBy"):
        if hasattr(properties, name):
            setattr(properties, name, "dpinfer" if name in ("author", "creator") else "")


def _lacking(program: str, package: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error that names the extra with the missing package."""
    return ModuleNotFoundError(
        f'files of {program} are written by {package}, which is not installed: pip install "dpinfer[{extra}]"',
        name=error.name,
    )
