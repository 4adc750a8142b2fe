"""Constants that take the place of computed values: made aside, then put into the graph."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.rewrite.scope import Scope


def constant_for(old: ir.Value, tensor: ir.TensorProtocol, scope: Scope, *, as_node: bool) -> ir.Value:
    """Make an initializer, or the result of a Constant node, with the name, type and annotations of a value."""
    node, graph = old.producer(), old.graph
    assert node is not None
    assert isinstance(graph, ir.Graph)
    clashes = not old.name or (not as_node and old.name in graph.initializers)
    name = scope.names.value(old.name or node.name or "constant") if clashes else str(old.name)
    if as_node:
        label = scope.names.node(node.name) if node.name and old.index() else node.name
        constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], name=label)
        constant.metadata_props.update(node.metadata_props)
        constant.doc_string = node.doc_string
        new = constant.outputs[0]
        new.name = name
    else:
        tensor.name = name
        new = ir.Value(name=name, const_value=tensor)
        if node._metadata_props or old._metadata_props:  # pyright: ignore[reportPrivateUsage]
            new.metadata_props.update({**node.metadata_props, **old.metadata_props})
        new.doc_string = old.doc_string or node.doc_string
    same_type = isinstance(old.type, ir.TensorType) and old.dtype == tensor.dtype
    new.type = copy_type(old.type) if same_type and old.type is not None else ir.TensorType(tensor.dtype)
    is_interface = old.is_graph_output() and old.shape is not None
    new.shape = old.shape.copy() if is_interface and old.shape is not None else ir.Shape(tensor.shape.numpy())
    return new


def put_constant(old: ir.Value, new: ir.Value) -> None:
    """Let everything read a constant instead of a value, which loses its name; the node that computed it stays."""
    node, graph = old.producer(), old.graph
    assert node is not None
    assert isinstance(graph, ir.Graph)
    constant = new.producer()
    if constant is None:
        graph.register_initializer(new)
    else:
        graph.insert_before(node, constant)
    carry_annotations(old, new)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name = None
