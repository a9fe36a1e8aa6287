"""The schema: the public declarations of a data set's columns and of its unit of protection."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import yaml

from dpinfer.checks import are_texts, is_text, of_type, require, whole
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError, named, shown, type_of
from dpinfer.schema.columns import Column, column_from_dict
from dpinfer.schema.declared import TypeCheck, check_types

if TYPE_CHECKING:
    from dpinfer.display.report import Report
    from dpinfer.privacy.ledger import Ledger

MOST_ROWS = 4096
"""Most rows of one person that can be kept: sums over a person and their products are then exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class People:
    """States that all rows of a person, identified by an undeclared column, are protected together.

    At most ``max_rows`` rows per person, from 1 to 4,096, are kept.
    """

    id: str
    max_rows: int

    def __post_init__(self) -> None:
        require(is_text(self.id), "id", self.id, "the name of the column that identifies people")
        right = f"the most rows of one person that are kept: a whole number to {MOST_ROWS:,}"
        whole(1, MOST_ROWS, right).check("max_rows", self.max_rows)

    @property
    def unit(self) -> str:
        """The unit of protection in words."""
        return f"one person with at most {self.max_rows:,} row{'s' if self.max_rows > 1 else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values, which `from_dict` reads."""
        return {"id": self.id, "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, values: object) -> People:
        """Read the output of `to_dict`; `SchemaError` for anything else."""
        if not isinstance(values, Mapping) or set(values) != {"id", "max_rows"}:
            raise SchemaError("the people of a schema are described by 'id' and 'max_rows'")
        try:
            return cls(values["id"], values["max_rows"])
        except OptionError as error:
            raise SchemaError(f"the people of a schema are described wrongly: {error}") from error


class Schema(Mapping[str, Column]):
    """Declared bounds and levels of columns, by name, which are never inferred from rows.

    Parameters
    ----------
    mapping : mapping of str to Column, optional
        For names that are not Python identifiers, such as ``{"hours.per.week": Integer(1, 99)}``.
    **columns : Column
        Columns by name; they come after those of the mapping.

    Raises
    ------
    SchemaError
        If there are no columns, a name is unusable or repeated, or a value is not a column.

    Notes
    -----
    Nothing is ever inferred from rows, and undeclared columns are not used. Two schemas are equal if they declare the
    same columns, in any order, and protect the same unit: a row, or a person (`with_people`).

    Examples
    --------
    >>> from dpinfer.schema import Boolean, Integer, Real
    >>> schema = Schema({"hours.per.week": Integer(1, 99)}, age=Real(0, 100), married=Boolean(missing=False))
    >>> schema
    Schema of 3 columns
      hours.per.week  Integer  [1, 99]      missing: drop   impossible: drop
      age             Real     [0, 100]     missing: drop   impossible: drop
      married         Boolean  False, True  missing: False  impossible: drop
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    _columns: dict[str, Column]
    _people: People | None

    def __init__(self, mapping: Mapping[str, Column] | None = None, /, **columns: Column) -> None:
        if mapping is not None and not isinstance(mapping, Mapping):
            raise SchemaError(
                f"Schema: a {type(mapping).__name__} is not a mapping of names to columns; "
                "write Schema(age=Real(0, 100)) or Schema({'age': Real(0, 100)})"
            )
        declared: dict[str, Column] = {}
        for name, column in [*(mapping or {}).items(), *columns.items()]:
            if name in declared:
                raise SchemaError(f"Schema: {name!r} is declared twice")
            if not is_text(name) or "`" in name or "\n" in name:
                right = "a text without backticks or line breaks"
                raise SchemaError(f"Schema: the name {named(name)} is not valid: expected {right}")
            if not isinstance(column, Column):
                kinds = "Real(lower, upper), Integer(lower, upper), Boolean(), Category([levels]) or Date(first, last)"
                raise SchemaError(f"Schema: {name}={shown(column)} is not a column; write {name}={kinds}")
            declared[name] = column
        if not declared:
            raise SchemaError("Schema: declare at least one column, such as Schema(age=Real(0, 100))")
        object.__setattr__(self, "_columns", declared)
        object.__setattr__(self, "_people", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Schema cannot be changed; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Schema cannot be changed; make another one")

    def __reduce__(self) -> tuple[Callable[[dict[str, Column], People | None], Schema], tuple[Any, ...]]:
        return _rebuilt, (dict(self._columns), self._people)

    def __getitem__(self, name: str) -> Column:
        column = self._columns.get(name) if isinstance(name, str) else None
        if column is None:
            raise UnknownColumnError(name, self._columns)
        return column

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column, or `default` if the name is not declared."""
        return self._columns.get(name, default)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._columns == other._columns and self._people == other._people

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((frozenset(self._columns.items()), self._people))

    def __repr__(self) -> str:
        rows = [
            (name, type(c).__name__, c.describe(), f"missing: {_missing(c)}", f"impossible: {c.impossible}")
            for name, c in self.items()
        ]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        count = f"{len(self)} column" + ("s" if len(self) > 1 else "")
        unit = "" if self._people is None else f", of people told apart by {self._people.id!r}: {self._people.unit}"
        return "\n".join([f"Schema of {count}{unit}", *("  " + line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return schema_report(self).html()

    @property
    def people(self) -> People | None:
        """The people whose rows are protected together; None if the unit of protection is one row."""
        return self._people

    @property
    def rows_per_unit(self) -> int:
        """The largest number of rows of one unit of protection: 1 for rows, ``max_rows`` for people."""
        return 1 if self._people is None else self._people.max_rows

    @property
    def unit(self) -> str:
        """The unit of protection in words."""
        return "one row" if self._people is None else self._people.unit

    def with_people(self, id: str, max_rows: int) -> Schema:
        """Return this schema for data in which one person may have several rows.

        Parameters
        ----------
        id : str
            The column that identifies people; not one of the declared columns.
        max_rows : int
            The largest number of rows kept per person, from 1 to 4,096.

        Raises
        ------
        OptionError
            If either argument is invalid.
        """
        people = People(id, max_rows)
        right = "a column that is not declared: leave the column that identifies people out of the schema"
        require(id not in self, "id", id, right)
        return _rebuilt(self._columns, people)

    def caption(self, name: str) -> str:
        """Return a column's label and unit, for axes; other text, such as an expression, is unchanged."""
        return self[name].caption(name) if name in self else name

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema of some of the columns, in the order given.

        Raises
        ------
        UnknownColumnError
            If a name is not declared.
        OptionError
            If `names` is a single text, or not a list or tuple of texts.
        """
        require(not isinstance(names, str), "names", names, f"a list of names, such as [{names!r}]")
        if hasattr(names, "__array__") and not isinstance(names, pd.Index):  # rows, whose cells no message may show
            raise OptionError("names", type_of(names), "a list of names of columns")
        return _rebuilt({name: self[name] for name in names}, self._people)

    def replace(self, mapping: Mapping[str, Column] | None = None, /, **columns: Column) -> Schema:
        """Return the schema with new declarations of some columns.

        A new column keeps the label, unit, source and missing codes of the old one unless it sets its own.

        Parameters
        ----------
        mapping : mapping of str to Column, optional
            For names that are not Python identifiers.
        **columns : Column
            Columns by name, such as ``income=Real(0, 3e5)``.

        Raises
        ------
        UnknownColumnError
            If a name is not declared: ``schema | {name: column}`` adds one.
        SchemaError
            If a value is not a column, or contradicts the codes that are kept.
        """
        changed = Schema({**(mapping or {}), **columns})
        worded = {name: column.with_words_of(self[name]) for name, column in changed.items()}
        return _rebuilt({**self._columns, **worded}, self._people)

    def __or__(self, other: object) -> Schema:
        """Combine two schemas; a column in both must have the same declaration."""
        if not isinstance(other, Mapping):
            return NotImplemented
        more = other if isinstance(other, Schema) else Schema(other)
        for name in more:
            if name in self and self[name] != more[name]:
                raise SchemaError(f"{name!r} is declared in two ways; say which counts: schema.replace({name}=...)")
        people = {one for one in (self._people, more._people) if one is not None}
        if len(people) > 1:
            raise SchemaError("the two schemas identify people by different columns")
        for one in people:
            if one.id in self or one.id in more:
                raise SchemaError(f"{one.id!r} identifies people in one schema, and is a column of the other")
        return _rebuilt({**self._columns, **more._columns}, people.pop() if people else None)

    def check(self, types: object) -> TypeCheck:
        """Compare the columns with declared types, without reading a row.

        Parameters
        ----------
        types : mapping of str to type, pyarrow.Schema or Schema
            By column: the name of a type in SQL or of a library (``"NUMERIC(10, 2)"``, ``"DATE"``), a type of numpy,
            pandas, Polars, Arrow or Python, or a column of a codebook. Give types that were fixed before the rows were
            collected; types that a library infers depend on the rows.

        Returns
        -------
        TypeCheck
            True if there is no mismatch; otherwise it lists the mismatches, with advice.

        Raises
        ------
        OptionError
            If ``types`` has another type.

        Examples
        --------
        >>> from dpinfer.schema import Boolean, Real, Schema
        >>> Schema(born=Real(0, 1), smokes=Boolean()).check({"born": "DATE", "smokes": Boolean(true=1, false=2)})
        2 mismatches of schema and declared types:
          born: is declared as dates, which are impossible for Real; declare Date(first, last)
          smokes: the codebook's 2 would be impossible for Boolean; declare them: levels, codes=, or true= and false=
        """
        return check_types(self, types)

    def sample(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw artificial rows, with independent and uniform columns.

        No private data are used. If an Integer column has codes of missing cells, about one cell in 50 is such a code.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        pandas.DataFrame, shape (n, number of columns)
            Reals as float64, integers as int64, booleans as bool, categories as their levels.

        Raises
        ------
        OptionError
            If `n` is not a whole number of at least 0, or `rng` is not a generator.
        """
        right = "a numpy.random.Generator, such as numpy.random.default_rng(1)"
        of_type(np.random.Generator, "rng", rng, right)
        require(hasattr(n, "__index__") and n >= 0, "n", n, "a whole number of at least 0")
        return pd.DataFrame({name: column.sample(operator.index(n), rng) for name, column in self.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON-ready values, which `from_dict` reads."""
        columns = [{"name": name, **column.to_dict()} for name, column in self.items()]
        return {"columns": columns} if self._people is None else {"columns": columns, "people": self._people.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """Read a schema from the output of `to_dict`.

        Raises
        ------
        SchemaError
            If the values do not describe a schema.
        """
        entries = values.get("columns") if isinstance(values, Mapping) else None
        if not isinstance(entries, list) or not all(isinstance(e, Mapping) and "name" in e for e in entries):
            raise SchemaError("a schema is described by an entry 'columns': a list of columns, each with a name")
        names = [entry["name"] for entry in entries]
        if any(names.count(name) > 1 for name in names):
            raise SchemaError("a schema is described with two columns of one name")
        found = cls({e["name"]: _column_of(e) for e in entries})
        stored = values.get("people")
        if stored is None:
            return found
        people = People.from_dict(stored)
        if people.id in found:
            raise SchemaError(f"a schema is described with people told apart by its own column {people.id!r}")
        return _rebuilt(found._columns, people)

    def to_json(self) -> str:
        """Return the schema as lossless JSON text; levels keep their types."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Read a schema from the output of `to_json`.

        Raises
        ------
        SchemaError
            If the text is not JSON or does not describe a schema.
        """
        try:
            values = json.loads(text)
        except (TypeError, ValueError) as error:
            raise SchemaError("the text of the schema is not JSON") from error
        return cls.from_dict(values)

    def to_yaml(self) -> str:
        """Return the schema as lossless YAML text, for reading and editing."""
        return write_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str) -> Schema:
        """Read a schema from the output of `to_yaml`, or from a completed draft.

        Raises
        ------
        SchemaError
            If the text is not YAML of plain values, does not describe a schema, or leaves bounds or levels blank.
        """
        if not isinstance(text, str):
            raise SchemaError("the text of the schema is not YAML")
        try:
            values = read_yaml(text)
        except ValueError as error:
            raise SchemaError(f"the schema cannot be read: {error}") from None
        return cls.from_dict(values)


def _column_of(entry: Mapping[str, Any]) -> Column:
    declaration = {key: value for key, value in entry.items() if key != "name"}
    blank = [key for key in ("kind", "lower", "upper", "levels", "first", "last") if declaration.get(key, "") is None]
    if blank:
        raise SchemaError(f"{named(entry['name'])} leaves {', '.join(blank)} blank: fill in what is public knowledge")
    try:
        return column_from_dict(declaration)
    except SchemaError as error:
        raise SchemaError(f"{named(entry['name'])}: {error}") from None


def _rebuilt(columns: Mapping[str, Column], people: People | None) -> Schema:
    schema = Schema(columns)
    object.__setattr__(schema, "_people", people)
    return schema


def _missing(column: Column) -> str:
    """Describe the treatment of missing cells, and their codes."""
    codes = ", ".join(map(repr, column.missing_codes))
    return f"{column.missing} (also {codes})" if codes else str(column.missing)


_RESOLVED = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    "float": (r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads plain values only, without aliases or repeated entries; names of entries stay texts."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (the base class's)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [one.value for one, _ in node.value]
        if not are_texts(keys) or len(set(keys)) < len(keys):
            raise yaml.YAMLError("an entry comes twice, or has no name")
        return {one.value: self.construct_object(value, deep=deep) for one, value in node.value}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes texts that either reader would take for another type."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None if text.isprintable() else '"'  # escapes what a reader of plain texts would change
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: Any, values: Any) -> Any:
    flat = not any(isinstance(one, list | dict) for one in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flat)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)

for _tag, (_pattern, _first) in _RESOLVED.items():
    for _one in (_Loader, _Dumper):
        _one.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


def read_yaml(text: str) -> Any:
    """Read YAML; `ValueError` if it is invalid, or holds more than plain values."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", at line {mark.line + 1}"
        raise ValueError(f"the text is not YAML of plain values{place}") from None


def write_yaml(values: Any) -> str:
    """Write plain values as YAML that `read_yaml` reads."""
    options = {"sort_keys": False, "allow_unicode": True, "default_flow_style": False, "width": 120}
    return str(yaml.dump(values, Dumper=_Dumper, **options))


def schema_report(schema: Schema, title: str = "", facts: tuple[tuple[str, str], ...] = ()) -> Report:
    """Return a row per column: type, values, treatment of missing and impossible cells, label and unit."""
    from dpinfer.display.report import Report, Table  # noqa: PLC0415  (no part of a private run)

    rows = []
    for name, column in schema.items():
        policies = (_missing(column), str(column.impossible))
        rows.append((name, type(column).__name__, column.describe(), *policies, column.label, column.measured_in))
    heads = ("column", "kind", "values", "missing", "impossible", "label", "unit")
    filled = [place for place in range(len(heads)) if place < 5 or any(row[place] for row in rows)]
    cells = tuple(tuple(row[place] for place in filled) for row in rows)
    table = Table(tuple(heads[place] for place in filled), cells, frozenset(range(1, len(filled))))
    people = schema.people
    unit = () if people is None else (("unit", f"{people.unit}, told apart by {people.id!r}"),)
    several = "" if len(schema) == 1 else "s"
    return Report(title or f"Schema of {len(schema)} column{several}", (*facts, *unit), (table,))


def rows_report(kind: str, schema: Schema, neighbors: str, ledger: Ledger | None) -> Report:
    """Return the public facts of data: schema, neighbours and ledger, but no row and no number of rows."""
    from dpinfer.privacy.ledger import ledger_facts  # noqa: PLC0415  (no part of a private run)

    rows = "public" if ledger is None else "confidential"
    account = () if ledger is None else ledger_facts(ledger)
    return schema_report(schema, kind, (("rows", rows), ("neighbours", neighbors), *account))
