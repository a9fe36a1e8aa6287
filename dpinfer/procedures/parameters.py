"""scikit-learn's protocol of parameters: a question read, changed and copied by the names of its fields."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

from dpinfer.errors import OptionError

__all__ = ["Parameters"]


class Parameters:
    """What `sklearn.base.clone` and searches over parameters ask of an estimator; scikit-learn is not needed.

    A question is frozen, so `set_params` returns a new one where scikit-learn's estimators change themselves.
    """

    __slots__ = ()

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return what the question was made with, by the names of its fields.

        Parameters
        ----------
        deep : bool
            Taken for scikit-learn's sake: no field is an estimator.

        Returns
        -------
        dict
            Options, and ``source``: the data or the release it is bound to, themselves and not copies.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> dpi.binomtest("smokes", p=0.3).set_params(p=0.5).get_params()["p"]
        0.5
        """
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Return the question with other options, checked as those of a new one are; this one stays as it is.

        Parameters
        ----------
        **params
            Fields, as `get_params` names them.

        Returns
        -------
        Procedure
            A new question.

        Raises
        ------
        OptionError
            If there is no such option, or it has no such value.
        """
        known = [one.name for one in fields(self) if one.init]  # type: ignore[arg-type]
        for name, given in params.items():
            if name not in known:
                raise OptionError(name, given, f"an option of {type(self).__name__}: {', '.join(known)}")
        return replace(self, **params)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        """Return an equal question about the same data: rows and ledgers are never copied."""
        return self.set_params()
