"""What differs between two models, as small pairs of models: windows around what is not the same.

Values that are computed by the same operators from the same are the same, from the inputs on. From the outputs inward,
two values are the same if they are computed by the same operator and its inputs are; where that is not so, a window
begins. It reaches back to values that are the same, or that nodes compute which the alignment of both graphs pairs:
those are its variables, and have to be shown to be the same as well.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.walk import holds_graphs
from onnx_passes.fragment.assembly import Assembly, OutsideError
from onnx_passes.fragment.fragment import Fragment, FragmentError, ValueNumbers
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.hashing.semantics import Semantics
from onnx_passes.graph.operators import STANDARD
from onnx_passes.graph.shapes import static_shape
from onnx_passes.numbers.algebra import Tensor, TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems.scalars import Numbers, UnsettledError
from onnx_passes.ops.semantics.evaluation import Attributes, Evaluation
from onnx_passes.ops.semantics.table import OperatorView

_MOST_NODES = 60
_MOST_INTEGERS, _MOST_REALS = 1 << 14, 64
"""Elements of values that are folded, or that are computed on the way."""
_SECONDS_OF_SIZES = 4.0
_NOT_COMPUTED = (
    UnsupportedError, UnsettledError, TooLargeError, ModelError, ArithmeticError, LookupError, TypeError, ValueError
)  # fmt: skip
_SAME, _PAIR = "same", "pair"
Pair = tuple[ir.Value, ir.Value]
Key = tuple[Any, ...]
"""A variable of a window: values of one number, or a pair of values that correspond."""


@dataclass(frozen=True)
class ChangedFragment:
    """A value that is computed in two ways: by fragments of both models, from variables that both have.

    ``variables`` are the values that they start from, by name; ``assumed`` those that still have to be shown to be the
    same. The inputs of the ``models`` are the variables, in order.
    """

    before: Fragment
    after: Fragment
    assumed: tuple[Pair, ...]
    variables: tuple[tuple[Key, ir.Value], ...]
    models: tuple[ir.Model, ir.Model]


class Comparison:
    """Two models, what is the same in them, and the windows around what is not.

    ``distrusted`` are pairs of values that correspond, but are not the same: windows go on behind them. ``opened`` are
    the values, for each window by its end, that are the same but depend on each other: it goes on behind them, too.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.before, self.after = before, after
        contents = Semantics((before, after))
        self._alignment = Alignment(before.graph, after.graph, contents)
        self._numbers = ValueNumbers(contents)
        names = {other: value for value, other in self._alignment.inputs if value is not None and other is not None}
        for value in (*before.graph.inputs, *after.graph.inputs):
            self._numbers.enter(value, ("input", names.get(value, value)))
        self.draws = tuple(self._numbers.enter_nodes(model.graph) for model in (before, after))
        self._operations = self._numbers.operations
        self._places = {node: place for place, node in enumerate(self._operations)}
        self.distrusted: set[Pair] = set()
        self.opened: defaultdict[Pair, set[int]] = defaultdict(set)
        # Nodes of subgraphs are known by the nodes that hold them.
        pairs = self._alignment.nodes.items()
        self._ahead = {a: b for a, b in pairs if a in self._operations and b in self._operations}
        self._back = {other: node for node, other in self._ahead.items()}
        self._common = self._all_numbers(before) & self._all_numbers(after)

    def outputs(self) -> list[Pair]:
        """Return the outputs of both models. Raises UsageError where one has no partner."""
        pairs = [(a, b) for a, b in self._alignment.outputs if a is not None and b is not None]
        if len(pairs) < len(self._alignment.outputs):
            raise UsageError("the models have different outputs", hint="compare models with the same interface")
        return pairs

    def are_same(self, a: ir.Value, b: ir.Value) -> bool:
        """Return whether two values have the same value number."""
        return self._numbers[a] == self._numbers[b]

    def depends(self, output: ir.Value, value: ir.Value) -> bool:
        """Return whether an output is computed from a value."""
        return value in Fragment.between((value,), (output,)).inputs

    def inputs_of(self, a: ir.Value, b: ir.Value) -> list[Pair] | None:
        """Return the pairs of operands of two nodes of one operator that correspond; None if some do not."""
        pairs = self.operands_of(a, b)
        return pairs if pairs is not None and all(self.correspond(x, y) for x, y in pairs) else None

    def operands_of(self, a: ir.Value, b: ir.Value) -> list[Pair] | None:
        """Return the pairs of operands that differ of two nodes of one operator; None if the operators do."""
        one, other = a.producer(), b.producer()
        if one is None or other is None or not self._are_alike(one, other) or a.index() != b.index():
            return None
        found: list[Pair] = []
        for x, y in zip(self._operations[one].operands, self._operations[other].operands, strict=True):
            if x is None or y is None:
                if x is not y:
                    return None
            elif not self.are_same(x, y):
                found.append((x, y))
        return found

    def window(self, a: ir.Value, b: ir.Value) -> ChangedFragment:
        """Return the window that ends with two values. Raises UnsupportedError."""
        before, after = (self._slice(root, (a, b)) for root in (a, b))
        variables: dict[Key, ir.Value] = {}
        for value in (*before.inputs, *after.inputs):
            variables.setdefault(self._variable(value, (a, b)), value)
        assumed = tuple(key[1:] for key in variables if key[0] == _PAIR)
        models = (self._model(self.before, before, variables), self._model(self.after, after, variables))
        return ChangedFragment(before, after, assumed, tuple(variables.items()), models)

    def open(self, part: ChangedFragment) -> bool:
        """Extend a window beyond variables that nodes compute, which may depend on each other; False if it has none."""
        opened = self.opened[part.before.outputs[0], part.after.outputs[0]]
        fresh = {key[1] for key, value in part.variables if key[0] == _SAME and value.producer() is not None} - opened
        opened |= fresh
        return bool(fresh)

    def _slice(self, root: ir.Value, window: Pair) -> Fragment:
        """Cut out what computes a value, back to the variables of a window."""
        try:
            found = Fragment.back_to(
                lambda value: value is not root and self._boundary(value, window) is not None,
                [root],
                accept=_require_plain,
                most=_MOST_NODES,
            )
        except FragmentError as error:
            raise UnsupportedError(f"a window of more than {_MOST_NODES} nodes") from error
        return replace(found, nodes=tuple(sorted(found.nodes, key=self._places.__getitem__)))

    def _variable(self, value: ir.Value, window: Pair) -> Key:
        found = self._boundary(value, window)
        assert found is not None
        return found

    def _boundary(self, value: ir.Value, window: Pair) -> Key | None:
        """Name the variable that a value is, if the window starts from it."""
        number = self._numbers[value]
        if value.producer() is None or (number in self._common and number not in self.opened[window]):
            return (_SAME, number)
        partner = self._partner(value)
        return None if partner is None else (_PAIR, *partner)

    def _partner(self, value: ir.Value) -> Pair | None:
        """Return a value with the one that corresponds to it, the one before first."""
        node = value.producer()
        if node is None:
            return None
        ahead, back = self._ahead.get(node), self._back.get(node)
        other = ahead or back
        if other is None or not self._are_alike(node, other):
            return None
        index = value.index()
        assert index is not None
        partner = other.outputs[index]
        found = (value, partner) if ahead is not None else (partner, value)
        return None if found in self.distrusted else found

    def correspond(self, a: ir.Value, b: ir.Value) -> bool:
        """Return whether the alignment pairs two values, and nothing has shown that they differ."""
        found = self._partner(a)
        return found is not None and found[1] is b

    def _are_alike(self, a: ir.Node, b: ir.Node) -> bool:
        """Return whether two nodes are the same function of their operands; random draws are not functions."""
        one, other = self._operations[a], self._operations[b]
        return one.key == other.key and not one.draws and len(one.operands) == len(other.operands)

    def _all_numbers(self, model: ir.Model) -> set[int]:
        computed = (output for node in model.graph for output in node.outputs)
        return {self._numbers[value] for value in (*model.graph.inputs, *computed)}

    def _model(self, model: ir.Model, fragment: Fragment, variables: Mapping[Key, ir.Value]) -> ir.Model:
        """Build a model of a fragment; its inputs are the variables, and values that are none of them constants."""
        copies, inputs = Assembly(shapes="declared"), dict[Key, ir.Value]()
        for key, value in variables.items():
            shape = static_shape(value)
            if shape is None or value.dtype is None:
                raise UnsupportedError(f"type or shape of '{value.name}' is not known")
            declared = ir.Value(type=ir.TensorType(value.dtype), shape=ir.Shape(shape))
            inputs[key] = copies.feed(value, declared)
        for value in (*fragment.outputs, *(x for node in fragment.nodes for x in node.inputs if x is not None)):
            key = self._key(value, variables)
            if key is not None:
                copies.values[value] = inputs[key]
        try:
            copies.add(fragment.nodes)
            return copies.model(model, [copies.computed(value) for value in fragment.outputs], name="window")
        except OutsideError as error:
            raise UnsupportedError(str(error)) from error

    def _key(self, value: ir.Value, variables: Mapping[Key, ir.Value]) -> Key | None:
        if constant_tensor(value) is not None:
            return None
        partner = self._partner(value)
        keys: list[Key] = [(_SAME, self._numbers[value])]
        keys += [] if partner is None else [(_PAIR, *partner)]
        return next((key for key in keys if key in variables), None)


def _require_plain(node: ir.Node) -> None:
    if holds_graphs(node):
        raise UnsupportedError(f"{node.op_type} has a subgraph")


def fold_sizes(model: ir.Model) -> ir.Model:
    """Replace integers and truth values that depend on sizes and constants alone by constants, in place.

    Where shapes are computed in different ways, windows need not reach back to what they are computed from.
    """
    evaluation = _Sizes(model, Numbers(), seconds=_SECONDS_OF_SIZES)
    for node in model.graph:
        if not all(map(_is_small, node.outputs)) or holds_graphs(node):
            continue
        with contextlib.suppress(*_NOT_COMPUTED):
            evaluation.node(node, {})
            for output in node.outputs:
                _replace(model.graph, output, evaluation.value(output))
    return model


class _Sizes(Evaluation):
    """Evaluation of nodes that depend on sizes and constants alone."""

    def _call(self, node: ir.Node, attributes: Attributes) -> OperatorView:
        value = node.inputs[0] if node.op_type in ("Shape", "Size") and node.graph is self.model.graph else None
        shape = None if value is None else static_shape(value)
        if value is None or shape is None or node.domain not in STANDARD:
            return super()._call(node, attributes)
        sized = Tensor(value.dtype or ir.DataType.FLOAT, None, np.broadcast_to(np.False_, shape))
        return OperatorView(node, [sized], node.attributes, self.model.opset_imports.get("", 1), self)


def _is_small(value: ir.Value) -> bool:
    shape = static_shape(value)
    if shape is None or value.dtype is None:
        return not value.name
    return math.prod(shape) <= (_MOST_REALS if value.dtype.is_floating_point() else _MOST_INTEGERS)


def _replace(graph: ir.Graph, value: ir.Value, tensor: Tensor) -> None:
    array = tensor.elements(Numbers())
    is_kept = tensor.dtype.is_floating_point() or array.dtype == object or constant_tensor(value) is not None
    if is_kept or tensor.dtype is not value.dtype or array.shape != static_shape(value):
        return
    held = ir.Tensor(np.array(array), tensor.dtype, name=f"{value.name}//folded")
    constant = ir.Value(name=held.name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(held.shape), const_value=held)
    graph.register_initializer(constant)
    for user, index in tuple(value.uses()):
        user.replace_input_with(index, constant)
