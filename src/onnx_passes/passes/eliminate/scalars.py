"""Plan to compute vectors of one element instead of scalars, and its gain."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import integers, is_given, squeezed_axes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, constant_tensor, is_constant
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.passes.move.forms import operands, shaped
from onnx_passes.passes.move.steady import elementwise
from onnx_passes.rewrite.refusal import Refusal, no

ELEMENTWISE = frozenset(elementwise())
_MOST = 16
"""Longest chain of operators that is searched."""
_FEW = 16
"""Most consumers of a value that are searched."""


class VectorPlan:
    """Plan to compute a vector of one element from vectors, instead of the scalar that an Unsqueeze reads.

    ``recipes`` maps each scalar of the computation, operands first, to its replacement: an existing vector, a constant,
    or a node to rebuild. ``refusal`` is the reason if the plan fails.
    """

    def __init__(self, unsqueeze: ir.Node) -> None:
        scalar = unsqueeze.inputs[0]
        assert scalar is not None
        self.unsqueeze = unsqueeze
        self.scalar = scalar
        self.recipes: dict[ir.Value, ir.Value | ir.TensorProtocol | ir.Node] = {}
        self.computed: dict[ir.Node, None] = {}
        self.selected: dict[ir.Node, None] = {}
        self._reads_vectors = False
        self.refusal = self._plan()

    def build(self, op: Builder) -> ir.Value:
        """Build the vector."""
        made: dict[ir.Value, ir.Value] = {}
        for scalar, recipe in self.recipes.items():
            if isinstance(recipe, ir.Value):
                made[scalar] = recipe
            elif not isinstance(recipe, ir.Node):
                made[scalar] = op.initializer(recipe, scalar.name)
            elif recipe.op_type == "Gather":
                made[scalar] = shaped(op.Gather(recipe.inputs[0], _vector_of_constant(recipe.inputs[1]), axis=0), [1])
            else:
                data, others = operands(recipe)
                made[scalar] = shaped(op.like(recipe, [*(made[value] for value in data), *others]), [1])
        return made[self.scalar]

    def _plan(self) -> Refusal | None:
        if not makes_vector(self.unsqueeze):
            return no("it is not a scalar that becomes a vector of one element", at=self.unsqueeze)
        if not is_only_read_by(self.scalar, (self.unsqueeze,)):
            return no("the scalar has other consumers", at=self.scalar)
        refusal = self._add(self.scalar)
        if refusal is not None:
            return refusal
        if not self._reads_vectors:
            return no("all operands are constant", at=self.unsqueeze)
        inside = {*self.computed, self.unsqueeze}
        shared = next((node for node in self.computed if not is_only_read_by(node.outputs[0], inside)), None)
        return None if shared is None else no("an intermediate scalar has other consumers", at=shared)

    def _add(self, scalar: ir.Value) -> Refusal | None:
        """Find the replacement of a value that is known to be a scalar, as its consumers compute a scalar."""
        if scalar in self.recipes:
            return None
        if is_constant(scalar):
            tensor = _vector_of_constant(scalar)
            if tensor is None:
                return no("a constant is not a scalar number", at=scalar)
            self.recipes[scalar] = tensor
            return None
        node = scalar.producer()
        if node is not None and (node.domain != "" or node.graph is not self.unsqueeze.graph):
            node = None
        if node is not None and node.op_type == "Squeeze" and _becomes_gather(node):
            return no("the Slice must become a Gather first", at=scalar)
        ready = self._ready(scalar, node)
        if ready is not None:
            self._reads_vectors = True
            if node is not None and ready is node.inputs[0]:
                self.selected[node] = None
            self.recipes[scalar] = ready
            return None
        if node is not None and node.op_type == "Gather" and _vector_of_constant(node.inputs[1]) is not None:
            self._reads_vectors = True
            self.selected[node] = None
            self.recipes[scalar] = node
            return None
        if node is not None and node.op_type in ELEMENTWISE:
            return self._add_computed(scalar, node)
        return no("a scalar has no vector form", at=scalar)

    def _ready(self, scalar: ir.Value, node: ir.Node | None) -> ir.Value | None:
        """Return an existing vector with the scalar as its element; None if there is none."""
        if node is not None and node.op_type == "Squeeze" and static_shape(node.inputs[0]) == (1,):
            return node.inputs[0]
        vector = unsqueezed(scalar, self.unsqueeze)
        return _gathered(node) if vector is None and node is not None and node.op_type == "Gather" else vector

    def _add_computed(self, scalar: ir.Value, node: ir.Node) -> Refusal | None:
        self.computed[node] = None
        if len(self.computed) > _MOST:
            return no("the chain of scalar operators is too long", at=node)
        data, others = operands(node)
        if any(value is not None and not is_constant(value) for value in others):
            return no("a scalar is used as another argument", at=node)
        for value in data:
            refusal = self._add(value)
            if refusal is not None:
                return refusal
        self.recipes[scalar] = node
        return None


def gains(plan: VectorPlan) -> bool:
    """Return whether nodes are saved, counting a Gather with other consumers twice."""
    inside = {*plan.computed, plan.unsqueeze}
    gone = {node: is_only_read_by(node.outputs[0], inside) for node in plan.selected}
    squeezes = sum(gone[node] for node in gone if node.op_type == "Squeeze")
    gathers = sum(not gone[node] for node in gone if node.op_type == "Gather")
    return 1 + squeezes - gathers > 0


def _becomes_gather(squeeze: ir.Node) -> bool:
    cut = None if squeeze.inputs[0] is None else squeeze.inputs[0].producer()
    if cut is None or cut.op_type != "Slice" or cut.domain != "" or cut.graph is not squeeze.graph:
        return False
    return not isinstance(picked(squeeze, cut), Refusal)


def unsqueezed(scalar: ir.Value, unsqueeze: ir.Node) -> ir.Value | None:
    """Return the result of another Unsqueeze of the scalar; None if there is none."""
    for node in scalar.consumers()[:_FEW]:
        if node is not unsqueeze and node.graph is unsqueeze.graph and adds_one_axis(node):
            return node.outputs[0]
    return None


def _gathered(gather: ir.Node) -> ir.Value | None:
    """Return the result of a Gather of the same element as a vector; None if there is none."""
    source, index = gather.inputs[0], constant(gather.inputs[1])
    # The last consumers are the newest: among them the Gather added for another result of the same scalar.
    for node in () if source is None or index is None else source.consumers()[-_FEW:]:
        if node.op_type != "Gather" or node.domain != "" or node.graph is not gather.graph:
            continue
        indices = constant(node.inputs[1]) if node.inputs[0] is source else None
        if indices is not None and indices.shape == (1,) and indices[0] == index:
            return node.outputs[0]
    return None


def _vector_of_constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    tensor = constant_tensor(value)
    if tensor is None or len(tensor.shape) != 0 or tensor.dtype is ir.DataType.STRING:
        return None
    return ir.Tensor(np.reshape(tensor.numpy(), 1), dtype=tensor.dtype)


def adds_one_axis(node: ir.Node) -> bool:
    """Return whether a node turns a scalar into a vector of one element, given that its input is a scalar."""
    return node.op_type == "Unsqueeze" and node.domain == "" and integers(node, 1, "axes") in ([0], [-1])


def makes_vector(node: ir.Node) -> bool:
    """Return whether a node turns a scalar into a vector of one element."""
    return adds_one_axis(node) and (rank(node.inputs[0]) == 0 or rank(node.outputs[0]) == 1)


def picked(squeeze: ir.Node, cut: ir.Node) -> tuple[int, int] | Refusal:
    """Return axis and index of the single element that a Slice takes and whose axis a Squeeze removes."""
    if not is_only_read_by(cut.outputs[0], (squeeze,)):
        return no("the slice has other consumers", at=cut)
    arguments = [integers(cut, 1, "starts"), integers(cut, 2, "ends")]
    arguments.append(integers(cut, 3, "axes") if is_given(cut, 3, "axes") else [0])
    arguments.append(integers(cut, 4) if is_given(cut, 4, "steps") else [1])
    known = [items for items in arguments if items is not None and len(items) == 1]
    if len(known) != len(arguments):
        return no("the Slice is not of one axis with constant bounds", at=cut)
    [start], [end], [axis], [step] = known
    length, size = rank(cut.inputs[0]), dimension(cut.inputs[0], axis)
    if length is None or size is None:
        return no("the size of the sliced axis is not known", at=cut)
    taken = range(size)[start:end]
    if step != 1 or len(taken) != 1:
        return no("the Slice does not take one element", at=cut)
    if squeezed_axes(squeeze, length) != [axis % length]:
        return no("the Squeeze does not remove the sliced axis alone", at=squeeze)
    return axis % length, taken[0]
