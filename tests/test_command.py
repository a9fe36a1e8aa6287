"""The command line: drafts of schemas tell names and declared types, and nothing of rows."""

import contextlib
import importlib
import io
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import dpinfer as dpi
from dpinfer import command
from dpinfer.errors import SchemaError

TABLE = pa.table(
    {
        "age": pa.array([31, 45], pa.int8()),
        "income": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "sex": pa.array(["zanzibar", "b"]).dictionary_encode(),
        "born": pa.array([1, 2], pa.date32()),
        "smokes": [True, False],
        "odd": [[1], [2]],
    }
)
BODY = """columns:
- name: "age"
  kind: integer
  lower:
  upper:
- name: "income"
  kind: real
  lower:
  upper:
- name: "sex"
  kind: category
  levels:
- name: "born"
  kind: date
  first:
  last:
- name: "smokes"
  kind: boolean
- name: "odd"
  kind:
"""


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = command.main([str(one) for one in argv])
        except SystemExit as stop:
            code = stop.code
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def body(text):
    return text[text.index("columns:") :]


def saved(table, path):
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, path, compression="uncompressed")
    return path


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.arrow"])
def test_declared_types_are_drafted_and_levels_are_not(name, tmp_path):
    path = saved(TABLE, tmp_path / name)
    drafted = run("schema", "draft", path, "--types", "declared")
    assert (drafted.code, drafted.err, body(drafted.out)) == (0, "", BODY)
    plain = run("schema", "draft", path)
    assert [line for line in body(plain.out).splitlines() if "kind" in line] == ["  kind:"] * 6
    assert "zanzibar" not in drafted.out + plain.out


@pytest.mark.parametrize(
    ("name", "first", "names"),
    [
        ("x.csv", 'age,"in;come",sex', ["age", "in;come", "sex"]),
        ("x.csv", "\ufeffage;income", ["age", "income"]),
        ("x.csv", "age", ["age"]),
        ("x.tsv", "age\tin,come", ["age", "in,come"]),
    ],
)
def test_of_a_csv_file_the_names_alone_are_drafted(name, first, names, tmp_path):
    path = tmp_path / name
    path.write_bytes(f"{first}\r\n90210,zanzibar,x\r\n".encode() + b"\xff\xfe\x00")
    drafted = run("schema", "draft", path)
    assert drafted.err == ""
    assert body(drafted.out) == "columns:\n" + "".join(f'- name: "{one}"\n  kind:\n' for one in names)


def test_a_draft_that_is_filled_in_is_a_schema(tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "x.yaml"
    path.write_text("age,smokes,born\n1,Yes,2024-01-01\n")
    assert run("schema", "draft", path, "--out", out).code == 0
    with pytest.raises(SchemaError, match="'age' leaves kind blank: fill in what is public"):
        dpi.read_codebook(out)
    text = out.read_text(encoding="utf-8")
    for filled in (
        "integer\n  lower: 0\n  upper: 99",
        "boolean\n  true: Yes\n  false: No",
        "date\n  first: 2024-01-01",
    ):
        text = text.replace("kind:\n", f"kind: {filled}\n", 1)
    text += "  last: 2024-12-31\n"
    out.write_text(text, encoding="utf-8")
    expected = dpi.Schema(
        age=dpi.Integer(0, 99), smokes=dpi.Boolean(true="Yes", false="No"), born=dpi.Date("2024-01-01", "2024-12-31")
    )
    assert dpi.read_codebook(out) == expected
    assert dpi.Schema.from_yaml(text) == expected


def test_a_file_that_is_there_is_kept(tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "x.yaml"
    path.write_text("age\n1\n")
    out.write_text("mine")
    again = run("schema", "draft", path, "--out", out)
    assert (again.code, again.out) == (2, "")
    assert again.err.startswith("dpinfer: error: cannot read")
    assert len(again.err.splitlines()) == 1
    assert out.read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == {"x.csv", "x.yaml"}


def test_codebooks_are_drafted_with_what_they_say(tmp_path):
    schema = dpi.Schema(
        age=dpi.Integer(0, 99, label='The "age"', unit="years"), born=dpi.Date("2024-01-01", "2024-12-31")
    )
    for name in ("book.json", "book.xml", "book.yaml"):
        dpi.write_codebook(schema, tmp_path / name)
        drafted = run("schema", "draft", tmp_path / name)
        if not name.endswith("xml"):
            assert dpi.Schema.from_yaml(drafted.out) == schema
    assert dpi.Schema.from_yaml(drafted.out) == schema


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["schema", "draft", "none.csv"], "there is no file 'none.csv'"),
        (["schema", "draft", "x.doc"], "file='x.doc' is not valid"),
        (["schema", "draft", "empty.csv"], "the first line of 'empty.csv' has no column names"),
        (["schema", "draft", "broken.parquet"], "'broken.parquet' cannot be read as a table of Arrow"),
    ],
)
def test_errors_are_one_line(argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.parquet").write_bytes(b"zanzibar")
    found = run(*argv)
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) == 1
    assert run("schema").code == 2
    assert run("--version").out == f"dpinfer {dpi.__version__}\n"


ODD = ["many", "", "2024-01-01", "1e400", str(2**70), "true", "zanzibar", '"a\nb"', "1,2,3,4"]


@pytest.mark.parametrize("cell", ODD)
def test_files_that_differ_in_one_cell_are_drafted_alike(cell, tmp_path):
    """Also in the names of the files that are written."""
    told = []
    for number, content in enumerate(("3", cell)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "x.csv").write_text(f"a,b\n1,2\n{content},4\n")
        frame = pd.DataFrame({"a": ["1", content] if number else [1, int(content)]})
        frame.to_parquet(folder / "x.parquet")
        for name in ("x.csv", "x.parquet"):
            done = run("schema", "draft", folder / name, "--out", folder / f"{name}.yaml")
            told.append((number, name, done.code, done.out, done.err, (folder / f"{name}.yaml").read_text()))
        told.append((number, sorted(one.name for one in folder.iterdir())))
    halves = [[one[1:] for one in told if one[0] == number] for number in (0, 1)]
    assert halves[0] == halves[1]


def test_the_command_is_installed_by_its_name():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["dpinfer"].partition(":")
    assert getattr(importlib.import_module(module), name) is command.main


@pytest.mark.slow
def test_the_module_runs_as_a_command(tmp_path):
    (tmp_path / "x.csv").write_text("age\n1\n")
    done = subprocess.run(
        [sys.executable, "-m", "dpinfer.command", "schema", "draft", str(tmp_path / "x.csv")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert body(done.stdout) == 'columns:\n- name: "age"\n  kind:\n'


def test_both_commands_end_alike():
    tour = importlib.import_module("dpinfer.__main__")
    assert tour.exit_code is command.exit_code
    assert command.exit_code.__module__ == "dpinfer.command"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with a ledger that keeps its releases, a saved release, a codebook and a table."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": [0.25, 0.5, 0.75] * 200, "g": ["a", "b"] * 300})
    schema = dpi.Schema(x=dpi.Real(0, 1), g=dpi.Category(["a", "b"]))
    ledger = dpi.Ledger("study.db", dataset="d", budget=dpi.ZCDP(1), keep=True)
    data = dpi.PrivateData(frame, schema, ledger)
    dpi.mean("x", data, by="g").fit(dpi.ZCDP(0.25), save="mean.json")
    frame.to_parquet("rows.parquet")
    dpi.write_codebook(schema, "book.json")
    return tmp_path


def test_a_ledger_says_what_is_spent_and_for_what(study):
    shown = run("ledger", "show", "study.db")
    assert shown.code == 0
    assert "ZCDP(rho=0.25) in 1 charges" in shown.out
    assert "ZCDP(rho=0.75)" in shown.out
    ledger = dpi.Ledger.open("study.db")
    charges = run("ledger", "charges", "study.db")
    assert "mean of x by g" in charges.out
    kept = pd.read_csv(io.StringIO(run("ledger", "releases", "study.db", "--csv").out), index_col=0)
    assert list(kept["id"]) == list(ledger.releases()["id"])


def test_a_new_ledger_has_no_charges(tmp_path):
    dpi.Ledger(tmp_path / "new.db", dataset="d", budget=dpi.ZCDP(1))
    assert run("ledger", "charges", tmp_path / "new.db").out == "nothing so far\n"


def test_a_release_is_shown_and_inferred_without_rows(study):
    shown, release = run("release", "show", "mean.json"), dpi.read_release("mean.json")
    assert shown.out == f"{release}\n"
    assert "mean of x by g" in shown.out
    assert "ZCDP(rho=0.25)" in shown.out
    told = run("release", "infer", "mean.json", "--option", "inference=wald", "--option", "target=data")
    assert told.out == f"{release.infer(inference='wald', target='data').summary()}\n"
    assert told.out != run("release", "infer", "mean.json").out


def test_a_codebook_is_compared_with_declared_types(study):
    assert run("schema", "check", "book.json", "rows.parquet").code == 0
    pyarrow.parquet.write_table(pa.table({"x": pa.array([1], pa.date32()), "g": ["a"]}), "dates.parquet")
    found = run("schema", "check", "book.json", "dates.parquet")
    assert found.code == 1
    assert "declared as dates" in found.out


def test_what_a_release_asked_is_audited(study, monkeypatch):
    found = run("audit", "mean.json", "--runs", "200")
    assert found.code == 0
    assert "ZCDP(rho=0.25)" in found.out
    assert "no check failed" in found.out
    audited = dpi.audit
    monkeypatch.setattr(
        dpi, "audit", lambda *given, **options: SimpleNamespace(passed=False, given=audited(*given, **options))
    )
    assert run("audit", "mean.json", "--runs", "200").code == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["ledger", "show", "none.db"], "there is no ledger"),
        (["ledger", "charges", "book.json"], "not a ledger"),
        (["release", "show", "none.json"], "cannot be read as a release"),
        (["release", "infer", "book.json"], "release"),
        (["release", "infer", "mean.json", "--option", "zanzibar=1"], "expected an option of the inference"),
        (["schema", "check", "book.json", "book.json"], "table='book.json' is not valid"),
        (["schema", "check", "book.json", "none.parquet"], "there is no file 'none.parquet'"),
        (["audit", "mean.json", "--runs", "3"], "runs=3 is not valid"),
    ],
)
def test_what_cannot_be_read_or_done_is_one_line(study, argv, words):
    found = run(*argv)
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) == 1


def test_an_option_without_a_value_is_refused(study):
    found = run("release", "infer", "mean.json", "--option", "wald")
    assert found.code == 2
    assert "'wald' is not NAME=VALUE" in found.err
