"""Turn Constant nodes into initializers."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.content import string_elements
from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.names import Names

_INPUTS_OPTIONAL_SINCE = 4


@passes.verify.equality
@passes.register(tags=("cleanup", "constants"))
class LiftConstants(Transformation):
    """Turn Constant nodes into initializers of the graph they are in, with name, type, shape and annotations.

    Rewrites: ``c = Constant <value_float = 2.0> (); y = Mul (x, c)`` → ``y = Mul (x, c)`` with initializer ``c``.
    Refuses:  constants that are outputs of their graph; functions, which cannot hold initializers; models of IR
              version 3 or older, where every initializer has to be an input.
    Exactness: bit-exact.
    """

    preserves = ("checker", "remove-unused", "shape-inference", "topological-sort", "unique-names")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Lift in the graph and its subgraphs."""
        constants = [node for node in model.graph.all_nodes() if node.op_type == "Constant" and node.domain == ""]
        if constants and model.ir_version < _INPUTS_OPTIONAL_SINCE:
            context.note(f"nothing lifted: in IR version {model.ir_version} every initializer has to be an input")
            constants.clear()
        names = Names.of(model.graph) if any(map(_clashes, constants)) else Names()
        lifted = [_lift(node, names) for node in constants]
        return PassResult(model, modified=any(lifted))


def _clashes(node: ir.Node) -> bool:
    name = node.outputs[0].name
    return not name or (isinstance(node.graph, ir.Graph) and name in node.graph.initializers)


def _lift(node: ir.Node, names: Names) -> bool:
    graph, output = node.graph, node.outputs[0]
    assert isinstance(graph, ir.Graph)
    tensor = None if output.is_graph_output() else tensor_of_constant_node(node)
    if tensor is None:
        return False
    name = output.name or node.name or "constant"
    if _clashes(node):
        name = names.value(name)
    same_type = output.type is not None and output.dtype == tensor.dtype
    value = ir.Value(
        name=name,
        shape=ir.Shape(tensor.shape.numpy()),
        type=copy_type(output.type) if same_type and output.type is not None else ir.TensorType(tensor.dtype),
        const_value=_renamed(tensor, name),
        doc_string=output.doc_string or node.doc_string,
        metadata_props={**node.metadata_props, **output.metadata_props} or None,
    )
    carry_annotations(output, value)
    graph.register_initializer(value)
    output.replace_all_uses_with(value)
    graph.remove(node, safe=True)
    return True


def _renamed(tensor: ir.TensorProtocol, name: str) -> ir.TensorProtocol:
    """Return the tensor under another name: clones of the model share it, and initializers name their tensor."""
    about = {"doc_string": tensor.doc_string, "metadata_props": dict(tensor.metadata_props) or None}
    if tensor.dtype == ir.DataType.STRING:
        shape = ir.Shape(tensor.shape.numpy())
        return ir.StringTensor(list(string_elements(tensor)), shape=shape, name=name, **about)  # pyright: ignore[reportArgumentType]
    return ir.Tensor(tensor.numpy(), tensor.dtype, name=name, **about)  # pyright: ignore[reportArgumentType]
