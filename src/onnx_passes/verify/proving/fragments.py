"""The old and the new fragment of an application: two computations from the same values."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.fragment.fragment import Fragment, FragmentError, is_plain
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.randomness import Functions

_MOST = 400
"""Nodes of one fragment, at most."""
_SETTLED = 24
"""Nodes that compute one value from constants, or from shapes."""
_INDICES = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
"""Types of shapes, and of what is computed from them."""
_NEAR = 24
_FURTHER = 24
"""Nodes that are looked at beside those of an application, for a value that both fragments come from."""


def fragments_of(application: Application, functions: Functions) -> tuple[Fragment, Fragment]:
    """Return what computes the old values and what computes the new ones. Raises FragmentError."""
    old = _Slice(application.matched, [before for before, _ in application.replaced], functions)
    new = _Slice((*application.added, *application.matched), [after for _, after in application.replaced], functions)
    for _ in range(_FURTHER):
        node = _next(old, new, functions)
        if node is None:
            break
        old.extend(node)
        new.extend(node)
    return old.fragment, new.fragment


class _Slice:
    """What values are computed by, as far back as some nodes and what depends on constants alone."""

    def __init__(self, start: Iterable[ir.Node], results: Sequence[ir.Value], functions: Functions) -> None:
        self._inside = set(start)
        self._functions = functions
        self._results = results
        self.fragment = self._cut()

    def extend(self, node: ir.Node) -> None:
        """Begin before a node."""
        self._inside.add(node)
        self.fragment = self._cut()

    def reads_shape_of(self, value: ir.Value) -> bool:
        """Return whether nothing of a value is read but its shape."""
        users = [node for node in self.fragment.nodes if value in node.inputs]
        return bool(users) and all(node.op_type == "Shape" and node.domain == "" for node in users)

    def _cut(self) -> Fragment:
        return Fragment.back_to(self._is_input, self._results, accept=self._require_plain, most=_MOST)

    def _is_input(self, value: ir.Value) -> bool:
        return value.producer() not in self._inside and not is_settled(value, self._functions)

    def _require_plain(self, node: ir.Node) -> None:
        if not is_plain(node, self._functions):
            raise FragmentError(f"{node.op_type} holds graphs, or computes something else each time")


def _next(old: _Slice, new: _Slice, functions: Functions) -> ir.Node | None:
    """Choose a node before one fragment that leads to what the other one reads."""
    for here, there in ((new, old), (old, new)):
        other = there.fragment
        wanted = {*other.inputs, *(value for node in other.nodes for value in node.outputs)}
        for leaf in here.fragment.inputs:
            node = None if leaf in other.inputs or here.reads_shape_of(leaf) else leaf.producer()
            if node is not None and is_plain(node, functions) and (leaf in wanted or _leads_to(node, wanted)):
                return node
    return None


def _leads_to(node: ir.Node, wanted: Collection[ir.Value]) -> bool:
    """Return whether a node depends on some values within a few nodes."""
    waiting, budget = deque([node]), _NEAR
    while waiting and budget:
        budget -= 1
        for value in waiting.popleft().inputs:
            if value is not None and value in wanted:
                return True
            if value is not None and (before := value.producer()) is not None:
                waiting.append(before)
    return False


def is_settled(value: ir.Value, functions: Functions) -> bool:
    """Return whether a value is computed from a few constants alone, or from shapes."""
    with_shapes = value.dtype in _INDICES
    budget, waiting = _SETTLED, [value]
    while waiting:
        here = waiting.pop()
        if is_constant(here):
            continue
        node = here.producer()
        budget -= 1
        if node is None or budget < 0 or not is_plain(node, functions):
            return False
        if with_shapes and node.op_type == "Shape" and node.domain == "":
            continue
        waiting.extend(given for given in node.inputs if given is not None)
    return True
