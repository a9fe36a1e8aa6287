"""What tests of many questions share: refusals that cost nothing, and releases whose stored text is damaged."""

from __future__ import annotations

import json
import struct
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError, ReleaseFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MISSING = object()
"""In place of a value: the entry is deleted."""


def each(function: Callable[..., Any], *asked: Any, **options: Any) -> list[Callable[[Any], Any]]:
    """Return questions of data, one for each value that the last option lists."""
    *_, last = options
    return [lambda data, value=value: function(*asked, data=data, **options | {last: value}) for value in options[last]]


def unspent(data: dpi.PrivateData) -> bool:
    """Say whether the ledger of the data is untouched."""
    return data.ledger.spent.is_zero and data.ledger.charges().empty


def assert_refused(
    questions: Iterable[Callable[[Any], Any]],
    error: type[Exception],
    match: str | None,
    data: dpi.PrivateData,
    price: Any,
) -> None:
    """Questions are refused by name when they are asked of data, and before the charge where data come later."""
    for place, ask in enumerate(questions):
        with pytest.raises(error, match=match):
            pytest.fail(f"question {place} of {match} was not refused: {ask(data)!r}")
        with pytest.raises(DPInferError):
            ask(None).bind(data).fit(price)
        assert unspent(data)


def read_and_infer(text: str) -> Any:
    """Infer from stored text, and write the summary; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = dpi.Release.from_json(text).infer()
        str(results.summary())
    return results


def damaged(release: dpi.Release, path: Iterable[str | int], value: Any) -> str:
    """Return the text of a release with one entry replaced or, by MISSING, deleted."""
    stored = json.loads(release.to_json())
    entry, (*inside, last) = stored, path
    for part in inside:
        entry = entry[part]
    if value is MISSING:
        del entry[last]
    else:
        entry[last] = value
    return json.dumps(stored)


def assert_damage_is_refused(
    release: dpi.Release, worse: Mapping[str, Iterable[Any]], match: str | None = None
) -> None:
    """Each of the worse values of an entry of the question, and its absence, make a damaged release.

    Dots in names lead inside; a name that begins with a slash is that of an entry of the whole release.
    """
    for name, values in worse.items():
        path = name[1:].split(".") if name.startswith("/") else ["question", *name.split(".")]
        steps = [int(part) if part.lstrip("-").isdigit() else part for part in path]
        for value in (MISSING, *values):
            with pytest.raises(ReleaseFormatError, match=match):
                pytest.fail(f"{name}={value!r} was read: {read_and_infer(damaged(release, steps, value))!r}")


def assert_other_sums_are_refused(release: dpi.Release) -> None:
    """Sums of the last stage that lack, are too many, in another order or of another name make a damaged release."""
    for change in (
        lambda sums, scales: (sums.pop(), scales.pop()),
        lambda sums, scales: (sums.append(sums[-1]), scales.append(scales[-1])),
        lambda sums, _: sums.reverse(),
        lambda sums, _: sums[0].update(name="other"),
    ):
        stored = json.loads(release.to_json())
        change(stored["stages"][-1]["sums"], stored["stages"][-1]["law"]["scales"])
        with pytest.raises(ReleaseFormatError):
            read_and_infer(json.dumps(stored))


def assert_nothing_is_stored_of(values: Iterable[float], texts: Iterable[str], packed: Iterable[bytes]) -> None:
    """None of the values is in the stored texts or bytes, in any order of bytes."""
    values, texts, packed = list(values), list(texts), list(packed)
    for value in values:
        assert not any(repr(value)[:12] in text for text in texts)
        assert not any(struct.pack(order, value) in one for order in ("<d", ">d") for one in packed)
