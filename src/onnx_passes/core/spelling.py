"""Misspelt methods and declarations of a pass: Python takes them for something else, and nothing happens."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING

from onnx_passes.core.errors import RegistrationError

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass

_METHODS = ("pattern", "check", "rewrite")
_DECLARATIONS = (
    "needs",
    "followed_by",
    "preserves",
    "fast_math",
    "lowers",
    "commute",
    "forks",
    "functions",
    "passes",
    "exhaustive",
)
_NEAR = 0.8
_SAID_WHEN_USED = ("call", "analyze")


def refuse_misspelt(cls: type[Pass], place: str) -> None:
    """Refuse a class that lacks a method that its kind needs, or has one whose name is nearly that of another."""
    own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    for missing in cls.unwritten():
        near = difflib.get_close_matches(missing, own, n=1, cutoff=_NEAR)
        if missing in _SAID_WHEN_USED and not near:
            continue
        raise RegistrationError(
            f"pass '{cls.__name__}' ({place}) has no method '{missing}'",
            hint=f"rename '{near[0]}' to '{missing}'" if near else f"write 'def {missing}(self, …)'",
        )
    for name, value in own.items():
        known = (
            _METHODS if _is_method_of_rule(value) else _DECLARATIONS if isinstance(value, tuple | str | bool) else ()
        )
        inherited = name in known or any(name in vars(base) for base in cls.__mro__[1:])
        near = [] if inherited or name in _fields(cls) else difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
        if near and near[0] not in own and hasattr(cls, near[0]):
            raise RegistrationError(
                f"'{name}' of pass '{cls.__name__}' ({place}) is nothing that anybody calls",
                hint=f"did you mean '{near[0]}'?",
            )


def _is_method_of_rule(value: object) -> bool:
    """Tell whether something is called as methods of rules are: with ``op`` first."""
    if not inspect.isfunction(value):
        return False
    return value.__code__.co_varnames[1:2] == ("op",)


def _fields(cls: type[Pass]) -> set[str]:
    return set(inspect.get_annotations(cls))
