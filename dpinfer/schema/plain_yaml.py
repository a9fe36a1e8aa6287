"""YAML of plain values, read as JSON would be: "No" is a text, and so are dates and the names of entries."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["read_yaml", "write_yaml"]

_RESOLVED = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    "float": (r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Plain values alone: no aliases, no repeated entries, and names of entries are texts as they stand."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (the base class's)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [one.value for one, _ in node.value]
        if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
            raise yaml.YAMLError("an entry comes twice, or has no name")
        return {one.value: self.construct_object(value, deep=deep) for one, value in node.value}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Texts that either reader would take for something else are quoted."""

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
    """Read YAML; `ValueError` if it is none, or more than plain values."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", at line {mark.line + 1}"
        raise ValueError(f"the text is not YAML of plain values{place}") from None


def write_yaml(values: Any) -> str:
    """Write plain values as YAML that `read_yaml` reads back."""
    return str(
        yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
    )
