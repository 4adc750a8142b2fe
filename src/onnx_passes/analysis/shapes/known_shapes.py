"""Types and shapes known before an inference: to compare, to restore, and to visit only nodes that changed since."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.edits import copy_type
from onnx_passes.graph.extents import parse

_MADE_UP = re.compile(r"\b_d\d+\b|\w_dim_\d+\b")
"""The names that inference gives to dimensions, and those that the exporter of TorchScript gives to ones of outputs."""


class KnownShapes:
    """Types and shapes of all values of a graph and its subgraphs at one moment, or of some values."""

    def __init__(self, values: ir.Graph | Iterable[ir.Value]) -> None:
        values = annotations.values(values) if isinstance(values, ir.Graph) else values
        self._before = {value: (value.type, value.shape) for value in values}
        self.contradicted: dict[ir.Value, ir.Shape] = {}
        """Declared shapes that inference showed to be false."""

    def shape(self, value: ir.Value) -> ir.Shape | None:
        """Return the shape that a value had."""
        return self._before[value][1]

    def restore(self) -> None:
        """Forget what was inferred since."""
        for value, (type_, shape) in self._before.items():
            value.type, value.shape = type_, shape

    def undo(self) -> None:
        """Restore all shapes, dropped declarations included."""
        self.restore()
        for value, shape in self.contradicted.items():
            value.shape = shape

    def drop(self, contradicted: Iterable[ir.Value]) -> None:
        """Give up shapes that inference contradicts: neither ``restore`` nor ``settle`` brings them back."""
        for value in contradicted:
            type_, shape = self._before.get(value, (None, None))
            if shape is not None:
                self.contradicted[value] = shape
                self._before[value] = type_, None

    def settle(self) -> bool:
        """Make what was inferred the values' own; returns whether it says anything new.

        Engines let values share one shape object, drop denotations, and replace objects by equal ones.
        """
        modified = bool(self.contradicted)
        for value, (type_, shape) in self._before.items():
            if value.type is not type_:
                new = value.type is not None and value.type != type_
                modified |= new
                value.type = copy_type(value.type) if new and value.type is not None else type_
            if value.shape is not shape:
                new = value.shape is not None and (shape is None or not _is_same(value.shape, shape))
                modified |= new
                value.shape = _copy(value.shape, shape) if new and value.shape is not None else shape
        return modified


def contradict(declared: ir.Shape | None, inferred: ir.Shape | None) -> bool:
    """Return whether two shapes of one value differ in rank or in a number."""
    if declared is None or inferred is None:
        return False
    if len(declared) != len(inferred):
        return True
    pairs = zip(declared.dims, inferred.dims, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and 0 <= a != b >= 0 for a, b in pairs)


def forget_made_up(graph: ir.Graph) -> dict[ir.Value, ir.Shape]:
    """Forget the shapes of results with a dimension that an inference named, and return them.

    Another inference may find out what it is.
    """
    forgotten: dict[ir.Value, ir.Shape] = {}
    given = {dim.value for value in graph.inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    for node in all_nodes(graph):
        if holds_graphs(node):
            # What is declared of its results is compared with what its graphs give.
            continue
        for value in node.outputs:
            if value.shape is not None and any(_is_made_up(dim, given) for dim in value.shape):
                forgotten[value], value.shape = value.shape, None
    return forgotten


def _is_made_up(dim: int | ir.SymbolicDim, given: Collection[str | None]) -> bool:
    if isinstance(dim, int) or dim.value is None or dim.value in given:
        return False
    return _MADE_UP.search(dim.value) is not None


def _is_same(shape: ir.Shape, before: ir.Shape) -> bool:
    return len(shape) == len(before) and all(map(_is_same_dim, shape.dims, before.dims))


def _is_same_dim(dim: int | ir.SymbolicDim, before: int | ir.SymbolicDim) -> bool:
    """Tell whether a dimension is what it was; extents write ``N+1`` in their own way."""
    if dim == before or isinstance(dim, int) or isinstance(before, int) or before.value is None:
        return dim == before
    return parse(before.value) == dim


def _copy(shape: ir.Shape, before: ir.Shape | None) -> ir.Shape:
    if before is None or len(before) != len(shape):
        return ir.Shape([_plain(dim) for dim in shape])
    dims = [old if _is_same_dim(dim, old) else _plain(dim) for dim, old in zip(shape.dims, before.dims, strict=True)]
    return ir.Shape(dims, denotations=[before.get_denotation(axis) for axis in range(len(before))])


def _plain(dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
    """Return a number for an expression that turned out to be one."""
    return int(dim.value) if not isinstance(dim, int) and dim.value and dim.value.isdecimal() else dim


Facts = tuple[object, ...]


class Memory:
    """Nodes as an inference left them, and the elements of vectors that it followed, as ``constants`` if all are known.

    All that a rule reads and writes is compared, so that it does not matter who changed the model, and how. Nodes that
    hold graphs, and calls of functions, are never known: their results depend on more than what is beside them.
    ``has_checked`` says that the shapes that the model declared have been compared with what operators make of inputs.
    """

    def __init__(self) -> None:
        self.has_checked = False
        self.elements: dict[ir.Value, list[int | ir.SymbolicDim]] = {}
        self.constants: dict[ir.Value, ir.TensorProtocol] = {}
        self._nodes: dict[ir.Node, Facts] = {}
        self._opsets: dict[str, int] = {}

    def begin(self, opsets: Mapping[str, int]) -> None:
        """Get ready for an inference; what was found by the rules of other versions is forgotten."""
        if self._opsets != opsets:
            self._opsets = dict(opsets)
            for known in (self.elements, self.constants, self._nodes):
                known.clear()

    def knows(self, node: ir.Node) -> bool:
        """Tell whether nothing that a rule would read or write has changed since."""
        facts = self._nodes.get(node)
        return facts is not None and facts == self._facts(node)

    def forget(self, node: ir.Node) -> None:
        """Forget the vectors that a node made: a rule is about to be asked again."""
        for value in node.outputs:
            self.elements.pop(value, None)
            self.constants.pop(value, None)

    def note(self, node: ir.Node) -> None:
        """Remember a node that a rule was asked about."""
        self._nodes[node] = self._facts(node)

    def _facts(self, node: ir.Node) -> Facts:
        facts: list[object] = [node.op_type, node.domain, *node.attributes.data.values()]
        for value in node.inputs:
            if value is None:
                facts.append(None)
                continue
            tensor = value.const_value
            if tensor is None:
                if (producer := value.producer()) is not None and is_constant_node(producer):
                    facts.extend(producer.attributes.data.values())
                facts.append(self.elements.get(value))
            shape = value.shape
            facts += (value, value.type, tensor, None if shape is None else shape.dims)
        for value in node.outputs:
            shape = value.shape
            facts += (value.type, None if shape is None else shape.dims)
        return tuple(facts)
