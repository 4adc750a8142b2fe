"""Call metrics of users by the names of their parameters: an array in the place of the other passes unnoticed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array

_Metric = Callable[..., Any]

_EXPECTED = ("expected", "labels", "targets", "reference", "y_true")
_FOUND = ("found", "outputs", "predictions", "logits", "y_pred")
_HINT = f"name one parameter 'expected' (or {', '.join(_EXPECTED[1:])}), one 'found' (or {', '.join(_FOUND[1:])})"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def call_by_name(metric: _Metric) -> Callable[[Array, Array], Any]:
    """Return a function of the expected and the found array, which gives each to the parameter of its name.

    Raises UsageError if the names do not tell which parameter takes which array.
    """
    roles = _roles(metric)

    def call(expected: Array, found: Array) -> Any:
        arrays = {name: expected if role == "expected" else found for name, role in roles.items()}
        return metric(**arrays)

    return call


def require_named(metric: _Metric) -> None:
    """Raise UsageError unless the names of the parameters tell which of them takes which array."""
    _roles(metric)


def _roles(metric: _Metric) -> dict[str, str]:
    """Return which array each parameter takes; parameters with a default and another name keep their default."""
    name = getattr(metric, "__name__", repr(metric))
    try:
        parameters = list(inspect.signature(metric).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"the metric '{name}' does not tell the names of its parameters", hint=_HINT) from error
    roles = {parameter.name: role for parameter in parameters if (role := _role(parameter))}
    needed = {p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC}
    if sorted(roles.values()) != ["expected", "found"] or needed - roles.keys():
        takes = ", ".join(map(str, parameters))
        raise UsageError(f"the names in '{name}({takes})' do not tell which array is which", hint=_HINT)
    return roles


def _role(parameter: inspect.Parameter) -> str:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return ""
    return "expected" if parameter.name in _EXPECTED else "found" if parameter.name in _FOUND else ""
