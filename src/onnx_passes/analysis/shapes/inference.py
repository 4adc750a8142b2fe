"""Walk over a model with the rules of onnx_shape_inference, which calculate with extents here and not with SymPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, check_inputs, registry

from onnx_passes.analysis.shapes.corrections import CORRECTIONS
from onnx_passes.analysis.shapes.known_shapes import Memory, contradict
from onnx_passes.analysis.shapes.standard_engine import length_of_long_vector
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.extents import Amount, Element, Extent, greatest, least, parse
from onnx_passes.graph.map_types import holds_map
from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.wording import name_of

if TYPE_CHECKING:
    import onnx


Dim = int | ir.SymbolicDim

_FAR = frozenset({2**63 - 1, 2**31 - 1, -(2**63), -(2**31)})
"""What exporters write for the end of an axis, whatever its size."""


def infer_slice(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Infer the shape of a slice, and its elements if those of a vector are known."""
    data, *_ = check_inputs(node, "data", "starts", "ends")
    output, shape = node.outputs[0], data.shape
    if shape is None:
        ctx.set_shape_and_dtype(output, None, data.dtype)
        return
    starts, ends, axes, steps = (_elements(ctx, node, index) for index in range(1, 5))
    if axes is None and argument(node, 3) is None:
        axes = list(range(len(shape) if starts is None else len(starts)))
    if axes is None or not all(isinstance(axis, int) for axis in axes):
        ctx.set_shape_and_dtype(output, ir.Shape([ctx.new_symbolic_dim() for _ in shape]), data.dtype)
        return
    if steps is None and argument(node, 4) is None:
        steps = [1] * len(axes)
    dims = list(shape.dims)
    for place, axis in enumerate(axes):
        if not isinstance(axis, int) or not -len(dims) <= axis < len(dims):
            continue
        bounds = [None if given is None or place >= len(given) else given[place] for given in (starts, ends, steps)]
        if bounds[2] == 0:
            raise ValueError("the step is 0")
        found = _sliced(shape[axis], *bounds)
        dims[axis] = ctx.new_symbolic_dim() if found is None else found
    ctx.set_shape_and_dtype(output, ir.Shape(dims), data.dtype)
    elements = ctx.get_symbolic_value(data)
    part = [bound for bound in (*(starts or ()), *(ends or ()), *(steps or ())) if isinstance(bound, int)]
    if elements is not None and axes == [0] and len(part) == 3:
        ctx.set_symbolic_value(output, elements[part[0] : part[1] : part[2]])


def _elements(ctx: ShapeInferenceContext, node: ir.Node, index: int) -> list[Dim] | None:
    value = argument(node, index)
    return None if value is None else ctx.get_symbolic_value(value)


def _sliced(size: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Element:
    """Return the number of elements sliced from one axis; a dynamic axis may be shorter than the slice."""
    if not isinstance(start, int) or not isinstance(step, int) or not isinstance(size, int | Extent):
        return None
    if step == -1 and start in _FAR and end in _FAR:
        return size
    if isinstance(size, int) and isinstance(end, int):
        return len(range(*slice(start, end, step).indices(size)))
    if step < 0 or start < 0:
        return None
    stop: Amount
    if isinstance(end, int):
        if end >= 0 and end not in _FAR:
            return 0 if end <= start else None
        stop = size if end in _FAR else size + end
    else:
        found = least(size, end) if isinstance(end, Extent) else None
        if found is None:
            return None
        stop = found
    return greatest(0, -((start - stop) // step))


def shapes_by_onnx(node: ir.Node, opsets: Mapping[str, int]) -> dict[ir.Value, ir.Shape]:
    """Return the shapes of results by the inference of onnx, as far as it knows them."""
    import onnx

    version = opsets.get(node.domain)
    schema = None if version is None or holds_graphs(node) else schema_of(node.domain, node.op_type, version)
    given = [value for value in node.inputs if value is not None and value.name]
    if schema is None or any(value.type is None for value in given):
        return {}
    types = {str(value.name): ir.to_proto(value).type for value in given}
    tensors = {str(value.name): constant_tensor(value) for value in given}
    data = {name: ir.to_proto(tensor) for name, tensor in tensors.items() if tensor is not None and tensor.size <= _FEW}
    imports = [onnx.helper.make_opsetid(domain, number) for domain, number in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, ir.to_proto(node), types, data, None, imports)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        return {}
    shapes = {output: _shape(found.get(str(output.name))) for output in node.outputs}
    return {output: shape for output, shape in shapes.items() if shape is not None}


_FEW = 64
"""Constants of up to so many elements may be sizes."""


def _shape(proto: onnx.TypeProto | None) -> ir.Shape | None:
    return None if proto is None or holds_map(proto) else ir.serde.deserialize_type_proto_for_shape(proto)  # pyright: ignore[reportArgumentType]


Functions = Mapping[ir.OperatorIdentifier, ir.Function]


class Inference(ShapeInferenceContext):
    """Context of the rules during one inference; ``problem`` is the first error.

    Nodes that are as an earlier inference left them, of which ``memory`` knows, are not visited again.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        functions: Functions,
        *,
        memory: Memory | None = None,
        caller: Inference | None = None,
    ) -> None:
        super().__init__(opsets, allocator=None if caller is None else caller._allocator)
        self.problem: str | None = None
        self.contradicted: dict[ir.Value, ir.Shape] = {}
        """Values whose declared shape, which is given, is not what their operators make of the inputs."""
        self._functions = functions
        self._memory = memory or Memory()
        self._memory.begin(opsets)
        self._symbolic_values = self._memory.elements
        self._made_constant: list[ir.Value] = []

    def infer(self, graph: ir.Graph) -> None:
        """Infer types and shapes in a graph and its subgraphs, as far as possible."""
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and value.shape != tensor.shape:
                value.shape = ir.Shape(tensor.shape.numpy())
        for value in graph.inputs:
            self._use_extents(value)
        for node in graph:
            if self._memory.knows(node):
                self._recall(node)
                continue
            self._memory.forget(node)
            has_more = holds_graphs(node) or node.op_identifier() in self._functions
            if has_more:
                self._enter(node)
                for inner in nested_graphs(node):
                    self.infer(inner)
            if self._try(node) and not has_more:
                self._memory.note(node)

    def _try(self, node: ir.Node) -> bool:
        try:
            self._infer_node(node)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RuntimeError) as error:
            self.problem = self.problem or f"{name_of(node)}: {getattr(error, 'message', error)}"
            return False
        return True

    def infer_alone(self, nodes: Iterable[ir.Node]) -> None:
        """Infer the results of single nodes from known inputs; skip nodes that hold graphs or call functions."""
        for node in nodes:
            if not holds_graphs(node) and node.op_identifier() not in self._functions:
                self._try(node)

    def _recall(self, node: ir.Node) -> None:
        """Restore the elements of vectors that an earlier inference followed, for rules to read."""
        for value in node.outputs:
            tensor = self._memory.constants.get(value)
            if tensor is not None and value.const_value is None:
                value.const_value = tensor
                self._made_constant.append(value)

    def forget_constants(self) -> None:
        """Remove the constants that were attached to values for rules to read."""
        for value in self._made_constant:
            value.const_value = None

    def _infer_node(self, node: ir.Node) -> None:
        for value in node.inputs:
            if value is not None:
                self._use_extents(value)
        rule = registry.get(node.domain, node.op_type, version=self.get_opset_version(node.domain))
        declared = [output.shape for output in node.outputs]
        if rule is None:
            function = self._functions.get(node.op_identifier())
            if function is not None:
                self._infer_call(node, function.clone())
        elif (length := length_of_long_vector(node)) is not None:
            first = node.inputs[0]
            self.set_shape_and_dtype(node.outputs[0], ir.Shape([length]), None if first is None else first.dtype)
        elif node.op_type == "Slice" and not node.domain:
            infer_slice(self, node)
        else:
            rule(self, node)
        correction = CORRECTIONS.get((node.domain, node.op_type))
        if correction is not None:
            correction(self, node, declared)
        self._settle(node, declared)

    def _settle(self, node: ir.Node, declared: list[ir.Shape | None]) -> None:
        """Drop declared shapes that a rule contradicts, unless onnx contradicts the rule."""
        doubted = {
            output: shape
            for output, shape in zip(node.outputs, declared, strict=True)
            if shape is not None and (output.shape is None or contradict(shape, output.shape))
        }
        opinion = shapes_by_onnx(node, self.opset_imports) if doubted else {}
        for output, shape in doubted.items():
            third = opinion.get(output)
            if contradict(output.shape, third) and not contradict(shape, third):
                output.shape = shape
            else:
                self.contradicted.setdefault(output, shape)

    def _use_extents(self, value: ir.Value) -> None:
        """Replace symbolic dimensions by polynomials that rules can read, and name every unnamed dimension."""
        shape = value.shape
        if shape is not None and any(type(dim) is ir.SymbolicDim for dim in shape.dims):
            value.shape = ir.Shape([dim if isinstance(dim, int) else self._extent(dim) for dim in shape.dims])

    def _extent(self, dim: ir.SymbolicDim) -> int | ir.SymbolicDim:
        if dim.value is None:
            return self.new_symbolic_dim()
        found = parse(dim.value)
        return dim if found is None else found

    def _enter(self, node: ir.Node) -> None:
        """Pass types and shapes to the body of a Loop or Scan; the initial shape of a loop may change later."""
        body = node.attributes.get("body")
        if node.domain or body is None:
            return
        scanned = len(node.inputs) - node.attributes.get_int("num_scan_inputs", 0)
        axes = node.attributes.get_ints("scan_input_axes", ())
        for index, (inner, outer) in enumerate(zip(body.as_graph().inputs, node.inputs, strict=False)):
            if outer is None or (node.op_type == "Loop" and (index < 2 or inner.shape is not None)):
                continue
            if outer.type is not None and not isinstance(outer.type, ir.TensorType):
                self.set_type(inner, outer.type)
                continue
            self._use_extents(outer)
            shape = outer.shape
            if index >= scanned and shape:
                dims = list(shape)
                del dims[axes[index - scanned] if index - scanned < len(axes) else 0]
                shape = ir.Shape(dims)
            self.set_shape_and_dtype(inner, shape, outer.dtype)

    def _infer_call(self, node: ir.Node, function: ir.Function) -> None:
        """Infer the results of a function for its arguments, in a copy of its body."""
        inside = Inference(function.opset_imports, self._functions, caller=self)
        for inner, outer in zip(function.inputs, node.inputs, strict=False):
            if outer is not None:
                inner.type, inner.shape, inner.const_value = outer.type, outer.shape, outer.const_value
                if outer in self._symbolic_values:
                    inside._symbolic_values[inner] = self._symbolic_values[outer]
        given = {**function.attributes, **node.attributes}
        for inner in all_nodes(function):
            for name, attribute in list(inner.attributes.items()):
                if attribute.is_ref():
                    actual = given.get(str(attribute.ref_attr_name))
                    del inner.attributes[name]
                    if actual is not None and actual.value is not None:
                        inner.attributes[name] = ir.Attr(name, attribute.type, actual.value)
        inside.infer(function.graph)
        self.problem = self.problem or inside.problem
        for outer, inner in zip(node.outputs, function.outputs, strict=False):
            if inner.type is not None:
                self.set_type(outer, inner.type)
            if inner.shape is not None:
                self.set_shape(outer, inner.shape)
            if inner in inside._symbolic_values:
                self.set_symbolic_value(outer, inside._symbolic_values[inner])

    def new_symbolic_dim(self) -> ir.SymbolicDim:
        """Make up a name."""
        return Extent({(self._allocator.mint(),): 1})

    def set_shape(self, value: ir.Value, shape: ir.Shape) -> bool:
        """Refine a shape: numbers replace names and other numbers; a declared rank is not trusted."""
        known = value.shape
        if known is None or len(known) != len(shape):
            value.shape = shape
            return True
        if known is shape:
            return False
        dims = [new if _says_more(new, old) else old for new, old in zip(shape.dims, known.dims, strict=True)]
        if all(new is old for new, old in zip(dims, known.dims, strict=True)):
            return False
        value.shape = ir.Shape(dims)
        return True

    def set_symbolic_value(self, value: ir.Value, data: list[int | ir.SymbolicDim]) -> None:
        """Remember the elements of a vector; if all are numbers, rules read them like those of a constant."""
        self._symbolic_values[value] = data
        if value.shape is None or len(value.shape) > 1 or value.const_value is not None or not data:
            return
        numbers = [element for element in data if isinstance(element, int)]
        if len(numbers) == len(data):
            elements = numbers if len(value.shape) else numbers[0]
            dtype = value.dtype or ir.DataType.INT64
            tensor = ir.Tensor(np.array(elements, dtype.numpy()), dtype, name=value.name)
            value.const_value = self._memory.constants[value] = tensor
            self._made_constant.append(value)

    def add_symbolic_equality(self, a: object, b: object) -> None:
        """Believe in no equality: dimensions of different names may meet in a broadcast."""


def _says_more(new: int | ir.SymbolicDim, old: int | ir.SymbolicDim) -> bool:
    return isinstance(new, int) if isinstance(old, int) else isinstance(new, int) or old.value is None
