"""Tables as files of Word and Excel: every cell, the rules, the notes, and nothing else."""

import sys
import zipfile

import pytest

from dpinfer.errors import OptionError
from dpinfer.reporting.office import _number
from dpinfer.reporting.summary_table import summary_table
from tests.reporting.test_summary_table import paid

ODD = ("Intercept", "=1+1", "a\x01b", "<c> & d")


@pytest.fixture(scope="module")
def table(case):
    return summary_table([case.noisy(release=paid("a")), case.ols], names=["private", "=ordinary"], stars=True)


def notes_of(texts, table):
    """The notes as written, which are those of the table, guarantees first."""
    numbered = [text for text in texts if text.startswith("[")]
    assert sorted(text.split("] ", 1)[1] for text in numbered) == sorted(table.notes)
    assert [text.split("] ")[0] for text in numbered] == [f"[{place}" for place in range(1, len(numbered) + 1)]
    assert "Guarantee: 0.1-zCDP, which implies (" in numbered[0]
    assert [text for text in texts if text.startswith("Warning: ")] == [f"Warning: {one}" for one in table.warnings]
    assert table.warnings


def test_word_has_the_title_every_cell_and_the_notes(table, tmp_path):
    docx = pytest.importorskip("docx")
    path = table.to_word(tmp_path / "table.docx")
    assert path == tmp_path / "table.docx"
    document = docx.Document(path)
    (drawn,) = document.tables
    shown = table.as_frame()
    assert [[cell.text for cell in row.cells] for row in drawn.rows] == [list(shown), *shown.to_numpy().tolist()]
    paragraphs = [one.text for one in document.paragraphs]
    assert paragraphs[0] == table.title
    notes_of(paragraphs[1:], table)
    assert document.core_properties.author == "dpinfer"
    assert document.core_properties.title == table.title


def test_word_is_ruled_as_a_journal_does(table, tmp_path):
    docx = pytest.importorskip("docx")
    (drawn,) = docx.Document(table.to_word(tmp_path / "table.docx")).tables
    edges = [[one.tag.split("}")[1] for one in row._tr.xpath("./w:tc[1]//w:tcBorders/*")] for row in drawn.rows]
    facts = len(table.facts)
    assert [place for place, one in enumerate(edges) if one] == [0, len(edges) - facts - 1, len(edges) - 1]
    assert edges[0] == ["top", "bottom"]
    assert len(drawn.rows[0]._tr.xpath("./w:trPr/w:tblHeader")) == 1


def test_excel_has_numbers_that_look_as_in_the_table(table, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path = table.to_excel(tmp_path / "table.xlsx")
    sheet = openpyxl.load_workbook(path).active
    shown, first = table.as_frame(), sheet["A1"]
    assert first.value == table.title
    assert [cell.value or "" for cell in sheet[3]] == list(shown)
    for row, line in zip(sheet.iter_rows(min_row=4, max_row=3 + len(shown)), shown.to_numpy(), strict=True):
        assert (row[0].value or "") == line[0]
        for cell, text in zip(row[1:], line[1:], strict=True):
            if isinstance(cell.value, int | float):
                assert float(text.strip("()*").replace(",", "")) == cell.value
                assert text.count("*") == cell.number_format.count("*")
                assert ("(" in text) == ("(" in cell.number_format)
            else:
                assert (cell.value or "") == text
    assert isinstance(sheet["B4"].value, float)
    below = [sheet.cell(down, 1).value for down in range(5 + len(shown), sheet.max_row + 1)]
    notes_of(below, table)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.1234", (0.1234, "0.0000")),
        ("-1.5***", (-1.5, '0.0"***"')),
        ("(0.0861)", (0.0861, '"("0.0000")"')),
        ("1.234e-05*", (1.234e-05, '0.000E+00"*"')),
        ("12,345.67", (12345.67, "#,##0.00")),
        ("17", (17.0, "0")),
        ("[0.1, 0.2]", None),
        ("399 (noisy)", None),
        ("(0.5", None),
        ("inf", None),
        ("nan", None),
        ("12%", None),
        ("", None),
        ("=1", None),
    ],
)
def test_what_is_a_number_to_excel(text, found):
    assert _number(text) == found


def test_no_name_is_a_formula_or_breaks_the_file(case, tmp_path):
    docx, openpyxl = pytest.importorskip("docx"), pytest.importorskip("openpyxl")
    odd = summary_table([case.noisy(release=paid("a"), names=ODD, response="=2+2")], title="=3+3")
    book = openpyxl.load_workbook(odd.to_excel(tmp_path / "odd.xlsx"))
    cells = [cell for row in book.active.iter_rows() for cell in row]
    assert not [cell for cell in cells if cell.data_type == "f"]
    assert {"=1+1", "=2+2", "=3+3", "a\ufffdb", "<c> & d"} <= {cell.value for cell in cells}
    (drawn,) = docx.Document(odd.to_word(tmp_path / "odd.docx")).tables
    assert {"=1+1", "a\ufffdb", "<c> & d"} <= {row.cells[0].text for row in drawn.rows}


def test_intervals_are_texts(case, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    table = summary_table([case.noisy(release=paid("a"))], show="conf_int")
    sheet = openpyxl.load_workbook(table.to_excel(tmp_path / "table.xlsx")).active
    assert sheet["B5"].value == table.frame.iloc[1, 0]


@pytest.mark.parametrize(
    ("write", "package", "ending"), [("to_word", "docx", ".docx"), ("to_excel", "openpyxl", ".xlsx")]
)
class TestFiles:
    def test_a_file_is_replaced_whole(self, table, tmp_path, write, package, ending):
        pytest.importorskip(package)
        path = tmp_path / f"table{ending}"
        path.write_text("old")
        getattr(table, write)(str(path))
        assert zipfile.is_zipfile(path)
        assert [one.name for one in tmp_path.iterdir()] == [path.name]

    def test_a_missing_package_is_named_with_its_extra(self, table, tmp_path, write, package, ending, monkeypatch):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ModuleNotFoundError, match=rf'pip install "dpinfer\[{write[3:]}\]"') as caught:
            getattr(table, write)(tmp_path / f"table{ending}")
        assert caught.value.name == package
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("path", [None, 3, "table.html", "no/such/folder/table"])
    def test_paths_are_checked(self, table, tmp_path, write, package, ending, path):
        given = tmp_path / f"{path}{ending}" if path and "folder" in str(path) else path
        with pytest.raises(OptionError, match="path"):
            getattr(table, write)(given)
