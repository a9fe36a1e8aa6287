"""What the unit of protection means for inference: sentences for results, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.errors import NotProvedError

if TYPE_CHECKING:
    from dpinfer.schema.schema import Schema

__all__ = ["alike_flags", "refuse_dependent_rows", "separate_flags"]


def alike_flags(schema: Schema, target: str) -> tuple[str, ...]:
    """Say that sampling variances count the rows of a person as alike.

    Parameters
    ----------
    schema : Schema
    target : {"population", "data"}

    Returns
    -------
    tuple of str
        Empty where rows are the unit, or only noise counts as error.
    """
    if schema.rows_per_unit == 1 or target != "population":
        return ()
    most = f"{schema.rows_per_unit:,}"
    return (
        f"a person may have {most} rows, and nothing was measured of how alike they are: sampling variances are "
        f"multiplied by {most}, which is enough for any likeness and often too much (of a regression where errors "
        "spread equally, as it is for independent rows); under add_remove bootstrap() weighs people as a whole: it "
        "does without equal spread, and is sharper where sampling outweighs the noise",
    )


def separate_flags(schema: Schema, groups: int, target: str) -> tuple[str, ...]:
    """Say that the errors of groups to which one person may belong are not independent.

    Parameters
    ----------
    schema : Schema
    groups : int
    target : {"population", "data"}

    Returns
    -------
    tuple of str
        Empty where rows are the unit, there is one group, or only noise counts as error.
    """
    if schema.rows_per_unit == 1 or groups == 1 or target != "population":
        return ()
    return (
        "a person may have rows in several groups, whose sampling errors are then related; this was not measured: "
        "every group's own interval is right, a comparison of groups may not be",
    )


def refuse_dependent_rows(schema: Schema, what: str, instead: str) -> None:
    """Refuse an inference that rests on independent rows where a person may have several.

    Parameters
    ----------
    schema : Schema
    what : str
        What is asked for.
    instead : str
        What serves.

    Raises
    ------
    NotProvedError
    """
    if schema.rows_per_unit > 1:
        raise NotProvedError(
            f"{what} takes rows as independent, and a person may have {schema.rows_per_unit:,} of them; {instead}, or "
            "max_rows=1"
        )
