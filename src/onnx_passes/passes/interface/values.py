"""Values of a model by name, for passes that change inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import onnx_ir as ir

from onnx_passes.core.errors import PassFailedError, did_you_mean

_GLOB = set("*?[")
_SHOWN = 5


def values_of(model: ir.Model) -> dict[str, ir.Value]:
    """Map the names of all values of the graph to the values, without subgraphs."""
    graph = model.graph
    computed = (value for node in graph for value in node.outputs)
    found = (*graph.inputs, *graph.initializers.values(), *computed)
    return {value.name: value for value in found if value.name}


def named(name: str, known: Mapping[str, ir.Value], kind: str) -> ir.Value:
    """Return the value of a name. Raises PassFailedError with similar names; patterns are not allowed."""
    if name in known:
        return known[name]
    fitting = [one for one in known if fnmatchcase(one, name)] if _GLOB & set(name) else []
    if fitting:
        more = ", …" if len(fitting) > _SHOWN else ""
        raise PassFailedError(
            f"'{name}' is a pattern, but a full {kind} name is required",
            hint=f"it matches {', '.join(map(repr, fitting[:_SHOWN]))}{more}",
        )
    near = did_you_mean(name, known)
    raise PassFailedError(f"the model has no {kind} '{name}'", hint=near or f"it has {_some(known)}")


def require_once(names: Iterable[str], kind: str) -> None:
    """Refuse repeated names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PassFailedError(f"{kind} '{name}' is named twice", hint="name it once")
        seen.add(name)


def _some(known: Iterable[str]) -> str:
    names = list(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(repr, names[:_SHOWN]))}{more}" if names else "none"
