"""Codebooks of each format: what is written is read back, what a format cannot hold is refused by name."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.entry.codebooks import described_columns, draft
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError
from dpinfer.schema import Boolean, Category, Date, Integer, Real, Schema

FORMATS = [".json", ".yaml", ".yml", ".xml"]

# Schemas of all kinds

ANY_TEXT = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
PLAIN_TEXT = st.one_of(
    st.text(string.ascii_letters + string.digits + " .:-_<&>\"'#äß", min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool),
    st.sampled_from(
        ["No", "yes", "null", "~", "1e3", "01", "1.0", "2024-01-01", "a: b", "- a", "true", "0x1F", "1_000"]
    ),
)
LINES = st.one_of(st.just(""), PLAIN_TEXT.map(lambda text: " ".join(text.split())))
NUMBERS = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e9, 1e9))
FEW = st.one_of(NUMBERS, PLAIN_TEXT)
DATES = st.one_of(st.dates(), st.datetimes().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)))


@st.composite
def columns(draw, texts=PLAIN_TEXT):
    words = {"label": draw(LINES), "unit": draw(LINES), "source": draw(LINES)}
    words["missing_codes"] = draw(st.lists(st.one_of(NUMBERS, texts), max_size=3))
    kind = draw(st.sampled_from(["real", "integer", "boolean", "codes", "levels", "labelled", "date"]))
    if kind == "real":
        return Real(*sorted(draw(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2, unique=True))), **words)
    if kind == "integer":
        ends = st.lists(st.integers(-(2**53), 2**53), min_size=2, max_size=2, unique=True)
        return Integer(*sorted(draw(ends)), **words)
    if kind == "boolean":
        return Boolean(**words)
    if kind == "codes":
        return Boolean(true=draw(st.lists(FEW, min_size=1, max_size=2)), false=draw(FEW), **words)
    if kind == "date":
        return Date(*sorted(draw(st.lists(DATES.map(str), min_size=2, max_size=2, unique=True))), **words)
    levels = draw(st.lists(st.one_of(texts, NUMBERS, st.booleans()), min_size=2, max_size=5))
    codes = draw(st.permutations(range(100, 100 + len(levels)))) if kind == "labelled" else ()
    return Category(levels, codes=codes, **words)


def declared(make):
    """Columns that are declarations: those that are none are refused, which other tests are about."""

    @st.composite
    def tried(draw):
        for _ in range(20):
            try:
                return draw(make)
            except SchemaError:
                continue
        return Real(0, 1)

    return tried()


NAMES = st.one_of(PLAIN_TEXT, ANY_TEXT).filter(lambda name: "`" not in name and "\n" not in name)
SCHEMAS = st.dictionaries(NAMES, declared(columns()), min_size=1, max_size=4).map(Schema)
ODD_SCHEMAS = st.dictionaries(NAMES, declared(columns(ANY_TEXT)), min_size=1, max_size=2).map(Schema)
QUIET = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
    deadline=None,
    max_examples=80,
)


@QUIET
@given(st.one_of(SCHEMAS, ODD_SCHEMAS))
def test_dpinfers_own_texts_hold_every_schema(schema):
    for back in (
        Schema.from_dict(schema.to_dict()),
        Schema.from_json(schema.to_json()),
        Schema.from_yaml(schema.to_yaml()),
    ):
        assert back == schema
        assert list(back) == list(schema)


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_hold_every_schema_or_refuse_a_column_by_name(suffix, tmp_path):
    path = tmp_path / f"book{suffix}"
    held = []

    @QUIET
    @given(st.one_of(SCHEMAS, ODD_SCHEMAS))
    def check(schema):
        path.unlink(missing_ok=True)
        try:
            dpi.write_codebook(schema, path)
            refusal = ""
        except SchemaError as error:
            refusal = str(error)
        held.append(not refusal)
        if refusal:
            assert any(repr(name) in refusal for name in schema)
            assert not path.exists()
        else:
            assert dpi.read_codebook(path) == schema
            assert list(dpi.read_codebook(path)) == list(schema)

    check()
    assert sum(held) >= 5  # not all are refused: how many are depends on what is drawn; `USUAL` is held by all


USUAL = Schema(
    {"hours.per.week": Integer(1, 99, label="Hours worked", unit="h", missing_codes=[-9, "NA"])},
    income=Real(0, 3e5, unit="EUR", source="questionnaire 2024, question 12"),
    smokes=Boolean(true=1, false=2, missing_codes=[9]),
    married=Boolean(),
    sex=Category(["female", "male"], codes=[1, 2]),
    region=Category(["No", "So"]),
    wave=Category([1, 2, 3]),
    share=Category([0.5, 1.5]),
    born=Date("1900-01-01", "2024-12-31", missing_codes=["9999-12-31"]),
    seen=Date("2024-01-01", "2024-01-31T12:30:00"),
)


@pytest.mark.parametrize("suffix", FORMATS)
def test_usual_schemas_are_held_by_every_format(suffix, tmp_path):
    path = tmp_path / f"book{suffix}"
    dpi.write_codebook(USUAL, path)
    assert dpi.read_codebook(path) == USUAL
    assert dpi.read_codebook(str(path), columns=["sex", "income"]) == USUAL.select(["sex", "income"])
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema(age=Real(0, 9, missing=0)), "'age': codebooks cannot express constants"),
        (Schema(age=Real(0, 9, impossible=0)), "'age': codebooks cannot express constants"),
        (Schema(age=Real(0, 9)).with_people("id", 3), "whose rows are protected together"),
        (
            Schema(age=Category([1, "a"], codes=[5, 6])),
            "'age': .* are not texts|'age': DDI needs|'age': the codebook format",
        ),
    ],
)
def test_what_a_codebook_cannot_hold_is_refused_by_name(suffix, schema, words, tmp_path):
    with pytest.raises(SchemaError, match=words):
        dpi.write_codebook(schema, tmp_path / f"book{suffix}")
    assert not list(tmp_path.iterdir())


def test_files_are_chosen_by_their_suffix(tmp_path):
    for path, words in (
        (tmp_path / "x.txt", "ends in .json"),
        (tmp_path / "x.dta", "ends in .json"),
        (3, "path=<int>"),
    ):
        with pytest.raises(OptionError, match=words):
            dpi.write_codebook(USUAL, path)
    for path, words in ((tmp_path / "x.csv", "ends in .json"), (3, "path=<int>")):
        with pytest.raises(OptionError, match=words):
            dpi.read_codebook(path)
    with pytest.raises(SchemaError, match=r"there is no file 'x\.json'"):
        dpi.read_codebook(tmp_path / "x.json")
    with pytest.raises(OptionError, match="schema=<dict>"):
        dpi.write_codebook({"a": Real(0, 1)}, tmp_path / "x.json")
    with pytest.raises(FileNotFoundError):
        dpi.write_codebook(USUAL, tmp_path / "none" / "x.json")


def test_dpinfers_own_files_are_codebooks_too(tmp_path):
    schema = USUAL.replace(income=Real(0, 1, missing=0.5)).with_people("id", 3)
    for name, text in (("a.json", schema.to_json()), ("a.yaml", schema.to_yaml())):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert dpi.read_codebook(tmp_path / name) == schema
        changed = dpi.read_codebook(tmp_path / name, columns=["income"], declare={"income": Real(0, 2)})
        assert changed == schema.select(["income"]).replace(income=Real(0, 2))
        sourced = dpi.read_codebook(tmp_path / name, source="survey of 2024")
        assert sourced["married"].source == "survey of 2024"
        assert sourced["income"].source == USUAL["income"].source
        assert sourced.people == schema.people
        with pytest.raises(OptionError, match="table='people'"):
            dpi.read_codebook(tmp_path / name, table="people")
    with pytest.raises(OptionError, match="source=<int>"):
        dpi.read_codebook(tmp_path / name, source=3)


# Frictionless


def written(tmp_path, values, name="book.json"):
    path = tmp_path / name
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "age", "type": "integer", "title": " Age of\n person ", "constraints": {"minimum": "0", "maximum": 99}},
    {"name": "income", "type": "number", "constraints": {"minimum": 0}},
    {"name": "smokes", "type": "boolean", "trueValues": ["1"], "falseValues": ["2"], "missingValues": ["", "-9"]},
    {"name": "sex", "type": "integer", "categories": [{"value": 1, "label": "female"}, {"value": 2, "label": "male"}]},
    {"name": "region", "type": "string", "categories": ["n", "s"]},
    {"name": "educ", "type": "integer", "constraints": {"enum": ["1", "2", "3"]}},
    {"name": "born", "type": "date", "format": "%d.%m.%Y", "constraints": {"minimum": "1900-01-01"}},
    {"name": "where", "type": "geopoint"},
]
GOOD = ["age", "smokes", "sex", "region", "educ"]


def test_a_table_schema_of_others_is_read(tmp_path):
    path = written(tmp_path, {"fields": FIELDS, "missingValues": ["", "NA", "-1"], "primaryKey": "id"})
    assert dpi.read_codebook(path, columns=GOOD) == Schema(
        age=Integer(0, 99, label="Age of person", missing_codes=["NA", -1]),
        smokes=Boolean(true=1, false=2, missing_codes=[-9]),
        sex=Category(["female", "male"], codes=[1, 2], missing_codes=["NA", -1]),
        region=Category(["n", "s"], missing_codes=["NA", -1]),
        educ=Category([1, 2, 3], missing_codes=["NA", -1]),
    )
    sourced = dpi.read_codebook(path, columns=["age"], source="survey of 2024")
    assert sourced["age"].source == "survey of 2024"
    declared = dpi.read_codebook(path, columns=["income"], declare={"income": Real(0, 3e5)})
    assert declared["income"] == Real(0, 3e5, missing_codes=["NA", -1])


def test_what_is_left_blank_is_told_with_what_to_do(tmp_path):
    path = written(tmp_path, {"fields": FIELDS})
    with pytest.raises(SchemaError) as caught:
        dpi.read_codebook(path)
    assert str(caught.value) == (
        "the codebook leaves blank id: levels; income: upper; born: last, a format of dates that is not ISO 8601; "
        "where: kind. Declare what is public knowledge, declare={name: Real(lower, upper)}, or choose other "
        "columns=[...]"
    )
    with pytest.raises(UnknownColumnError, match="'wages' is not in the codebook"):
        dpi.read_codebook(path, columns=["wages"])
    with pytest.raises(UnknownColumnError, match="'wages' is not in the codebook"):
        dpi.read_codebook(path, declare={"wages": Real(0, 1)})
    with pytest.raises(OptionError, match=r"columns='age'"):
        dpi.read_codebook(path, columns="age")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"type": "number", "decimalChar": ","}, "numbers with other characters"),
        ({"type": "integer", "groupChar": " "}, "numbers with other characters"),
        ({"type": "number", "bareNumber": False}, "numbers with other characters"),
        ({"type": "date", "format": "any"}, "not ISO 8601"),
        ({"type": "time"}, "kind"),
    ],
)
def test_cells_in_another_notation_are_told_and_not_dropped(more, words, tmp_path):
    path = written(
        tmp_path, {"fields": [{"name": "x", "constraints": {"minimum": "2020-01-01", "maximum": 9}, **more}]}
    )
    with pytest.raises(SchemaError, match=words):
        dpi.read_codebook(path)


def test_a_draft_has_what_a_table_schema_says_in_the_order_of_a_declaration(tmp_path):
    lines = draft(written(tmp_path, {"fields": [{**FIELDS[1], "missingValues": ["-9"], "unit": "years"}]})).splitlines()
    assert lines[lines.index("columns:") + 1 :] == [
        '- name: "age"',
        "  kind: integer",
        "  lower: 0",
        "  upper: 99",
        '  missing_codes: ["-9"]',
        '  label: "Age of person"',
        '  unit: "years"',
    ]


def test_a_data_package_has_tables(tmp_path):
    tables = [{"name": name, "schema": {"fields": FIELDS[1:2]}} for name in ("people", "visits")]
    path = written(tmp_path, {"resources": tables})
    assert list(dpi.read_codebook(path, table="people")) == ["age"]
    assert dpi.read_codebook(written(tmp_path, {"resources": tables[:1]}, "one.json")) == dpi.read_codebook(
        path, table="visits"
    )
    with pytest.raises(SchemaError, match=r"2 tables; name one of them: table=\['people', 'visits'\]"):
        dpi.read_codebook(path)
    with pytest.raises(UnknownColumnError, match="'wages' is not in the Data Package"):
        dpi.read_codebook(path, table="wages")
    with pytest.raises(SchemaError, match="does not contain the table"):
        dpi.read_codebook(written(tmp_path, {"resources": [{"name": "a", "schema": "people.json"}]}, "far.json"))


@pytest.mark.parametrize(
    "values",
    [
        {"fields": 3},
        {"fields": [3]},
        {"fields": [{"type": "string"}]},
        {"fields": [{"name": "a", "constraints": 3}]},
        {"fields": [{"name": "a", "type": "string", "constraints": {"enum": {"b": 1}}}]},
        {"fields": [{"name": "a", "type": "string", "categories": [{"label": "x"}]}]},
        {"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": "low", "maximum": 3}}]},
        {"fields": [FIELDS[1], FIELDS[1]]},
        {"resources": 3},
        {"resources": [{"schema": 3}]},
        {"fields": []},
        {"something": []},
        3,
    ],
)
def test_a_table_schema_that_is_none(values, tmp_path):
    with pytest.raises(SchemaError):
        dpi.read_codebook(written(tmp_path, values))


@pytest.mark.parametrize(("name", "content"), [("a.json", b"{"), ("a.json", b"\xff\xfe"), ("a.yaml", b"a: [")])
def test_files_that_cannot_be_read(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SchemaError, match=f"'{name}' cannot be read"):
        dpi.read_codebook(tmp_path / name)


# DDI

HEAD = '<?xml version="1.0"?>\n<codeBook xmlns="ddi:codebook:2_5"><dataDscr>'
TAIL = "</dataDscr></codeBook>"
VARS = """
<var name="age" intrvl="discrete"><labl>Age
 of person</labl><valrng><range UNITS="INT" min="0" max="99"/></valrng><invalrng><item VALUE="-9"/></invalrng>
 <sumStat type="min">17</sumStat><sumStat type="max">81</sumStat><varFormat type="numeric"/></var>
<var name="sex" intrvl="discrete"><catgry><catValu>1</catValu><labl>female</labl><catStat>7</catStat></catgry>
 <catgry><catValu>2</catValu><labl>male</labl></catgry><catgry missing="Y"><catValu>9</catValu><labl>?</labl></catgry>
 <varFormat type="numeric"/></var>
<var name="region" intrvl="discrete"><catgry><catValu>N</catValu><labl>x</labl></catgry><catgry><catValu>S</catValu>
 <labl>x</labl></catgry><varFormat type="character"/></var>
<var name="wage" intrvl="contin"><invalrng><range min="-99" max="-1"/></invalrng><varFormat type="numeric"/></var>
"""


def test_a_ddi_codebook_of_others_is_read(tmp_path):
    path = tmp_path / "book.xml"
    path.write_text(HEAD + VARS + TAIL, encoding="utf-8")
    book = dpi.read_codebook(path, columns=["age", "sex", "region"], source="codebook of 2024")
    assert book == Schema(
        age=Integer(0, 99, label="Age of person", missing_codes=[-9], source="codebook of 2024"),
        sex=Category(["female", "male"], codes=[1, 2], missing_codes=[9], source="codebook of 2024"),
        region=Category(["N", "S"], source="codebook of 2024"),
    )


def test_ranges_of_others_and_statistics_are_not_taken_for_declarations(tmp_path):
    """A range in such a file is often that of the rows, which is data."""
    path = tmp_path / "book.xml"
    path.write_text(HEAD + VARS + TAIL, encoding="utf-8")
    with pytest.raises(SchemaError, match=r"age: lower, upper, lower and upper \(a range .* say source="):
        dpi.read_codebook(path, columns=["age"])
    with pytest.raises(SchemaError, match=r"wage: lower, upper, missing_codes \(a range of codes\)"):
        dpi.read_codebook(path, columns=["wage"], source="codebook of 2024")
    told = draft(path) + repr(described_columns(path, trusted=True))
    assert not any(number in told for number in ("17", "81", "'7'"))


def test_of_text_without_categories_only_levels_are_blank(tmp_path):
    path = tmp_path / "book.xml"
    path.write_text(HEAD + '<var name="a"><varFormat type="character"/></var>' + TAIL, encoding="utf-8")
    with pytest.raises(SchemaError, match=r"leaves blank a: levels\. Declare"):
        dpi.read_codebook(path)


BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><codeBook>&c;</codeBook>'
FAR = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><codeBook>&b;</codeBook>'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BOMB.encode(), "declares a document type"),
        (FAR.encode("utf-16"), "declares a document type"),
        (b"<codeBook>", "not XML, at line 1"),
        (b"", "not XML"),
        (b"<other/>", "not a DDI codebook"),
        (b"<codeBook/>", "describes no variables"),
        ((HEAD + "<var/>" + TAIL).encode(), "one without a name"),
        (b"<codeBook>&unknown;</codeBook>", "not XML"),
    ],
)
def test_xml_that_is_no_codebook(content, words, tmp_path):
    path = tmp_path / "book.xml"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=words):
        dpi.read_codebook(path)


def test_ddi_is_of_the_standards_namespace_and_order(tmp_path):
    import xml.etree.ElementTree as ET

    path = tmp_path / "book.xml"
    dpi.write_codebook(USUAL, path)
    root = ET.fromstring(path.read_bytes())
    space = "{ddi:codebook:2_5}"
    assert root.tag == f"{space}codeBook"
    order = ["labl", "valrng", "invalrng", "catgry", "varFormat", "notes"]
    for var in root.iter(f"{space}var"):
        places = [order.index(one.tag.removeprefix(space)) for one in var]
        assert places == sorted(places)
    assert [one.tag.removeprefix(space) for one in root] == ["docDscr", "stdyDscr", "dataDscr"]


def test_pages_of_other_folders_are_not_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dpi.write_codebook(USUAL, "book.json")
    assert dpi.read_codebook(Path("book.json")) == USUAL
