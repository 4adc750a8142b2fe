"""Convert Constant nodes to initializers."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.graph.hashing.content import string_elements
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_INPUTS_OPTIONAL_SINCE = 4
_RULE = "Constant node as an initializer"


@passes.verify.equality
@passes.register(tags=("cleanup", "constants"))
class LiftConstants(EditorPass):
    """Convert Constant nodes to initializers, with name, type, shape and annotations.

    Rewrites: ``c = Constant <value_float = 2.0> (); y = Mul (x, c)`` → ``y = Mul (x, c)`` with initializer ``c``.
    Refuses:  constants that are outputs of their graph; functions, which cannot hold initializers; models of IR
              version 3 or older, where every initializer has to be an input.
    Exactness: bit-exact.
    """

    preserves = ("checker", "remove-unused", "shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Lift in the graph and its subgraphs."""
        constants = [node for node in all_nodes(model.graph) if node.op_type == "Constant" and node.domain == ""]
        if constants and model.ir_version < _INPUTS_OPTIONAL_SINCE:
            reason = f"in IR version {model.ir_version} every initializer has to be an input"
            editor.context.note(f"nothing lifted: {reason}")
            editor.refuse(_RULE, reason)
            return
        for node in constants:
            tensor = tensor_of_constant_node(node)
            if node.outputs[0].is_graph_output():
                editor.refuse(_RULE, "it is an output of its graph", node)
            elif tensor is None:
                editor.refuse(_RULE, "its value is not a known tensor", node)
            else:
                editor.store(_RULE, node, {node.outputs[0]: _copied(tensor)}, settled=True)


def _copied(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return a copy for another name: clones of the model share the tensor, and initializers rename it."""
    about = {"doc_string": tensor.doc_string, "metadata_props": dict(tensor.metadata_props) or None}
    if tensor.dtype == ir.DataType.STRING:
        shape = ir.Shape(tensor.shape.numpy())
        return ir.StringTensor(list(string_elements(tensor)), shape=shape, **about)  # pyright: ignore[reportArgumentType]
    return ir.Tensor(tensor.numpy(), tensor.dtype, **about)  # pyright: ignore[reportArgumentType]
