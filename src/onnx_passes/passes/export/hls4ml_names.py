"""C++ identifiers for layers and variables, as hls4ml requires."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import onnx_ir as ir

from onnx_passes.rewrite.editor import Editor

_RULE = "names for C++"
_Named = TypeVar("_Named", ir.Value, ir.Node)
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
        continue default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
        inline input int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
        public register requires return short signed sizeof static static_assert struct switch template this throw true
        try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
        """,
    )
)
"""Keywords, and ``input``, hls4ml's name for the predecessor of a layer without inputs."""


def identifier(name: str, taken: set[str], kind: str) -> str:
    """Return a unique C++ identifier; letters and digits are kept."""
    wish = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    # Names with two consecutive underscores are reserved for the compiler.
    wish = re.sub(r"__+", "_", wish)
    if not wish or wish[0].isdigit() or wish in _RESERVED:
        wish = f"{kind}_{wish}" if wish and wish not in _RESERVED else f"{wish or kind}_1"
    found, number = wish, 1
    while found in taken:
        number += 1
        found = f"{wish}_{number}"
    taken.add(found)
    return found


def rename(editor: Editor) -> dict[str, str]:
    """Rename nodes and values as needed; return the new names of inputs and outputs."""
    graph, taken = editor.graph, set[str]()
    values = _renamed(((value, value.name) for value in _values(graph)), "tensor", taken)
    # Layers and constants share one namespace in hls4ml.
    nodes = _renamed(((node, node.name or node.op_type) for node in graph), "layer", taken)
    interface = {*graph.inputs, *graph.outputs}
    if not values and not nodes:
        return {}
    changed = {value.name or "": name for value, name in values.items() if value in interface}

    def make() -> None:
        # A new name may be the old one of another renamed value.
        for value in values:
            value.name = editor.scope.names.value(f"renamed_{value.name}")
        for value, name in values.items():
            value.name = name
        for node, name in nodes.items():
            node.name = name

    return changed if editor.change(_RULE, list(graph), make, settled=True) else {}


def _values(graph: ir.Graph) -> Iterable[ir.Value]:
    found = (*graph.inputs, *graph.outputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
    return (value for value in dict.fromkeys(found) if value.name)


def _renamed(named: Iterable[tuple[_Named, str | None]], kind: str, taken: set[str]) -> dict[_Named, str]:
    wanted = [(thing, name or "", identifier(name or "", taken, kind)) for thing, name in named]
    return {thing: name for thing, old, name in wanted if name != old}
