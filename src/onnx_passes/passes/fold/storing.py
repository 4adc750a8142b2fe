"""Put a tensor in the place of a value that nodes computed."""

from __future__ import annotations

from functools import cached_property

import onnx_ir as ir

from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.names import Names

_INITIALIZERS_SINCE = 4


class Storage:
    """Makes initializers, or Constant nodes where a graph cannot have or should not return an initializer."""

    def __init__(self, scope: ir.Graph, ir_version: int, *, in_function: bool = False) -> None:
        self._scope = scope
        self._only_nodes = in_function or ir_version < _INITIALIZERS_SINCE

    @cached_property
    def names(self) -> Names:
        """Return the names in use."""
        return Names.of(self._scope)

    def replace(self, old: ir.Value, tensor: ir.TensorProtocol) -> None:
        """Let everything read a tensor instead of a value; the node that computed it stays, unread."""
        node, graph = old.producer(), old.graph
        assert node is not None
        assert isinstance(graph, ir.Graph)
        as_node = self._only_nodes or old.is_graph_output()
        clashes = not old.name or (not as_node and old.name in graph.initializers)
        name = self.names.value(old.name or node.name or "constant") if clashes else str(old.name)
        if as_node:
            label = self.names.node(node.name) if node.name and old.index() else node.name
            constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], name=label)
            constant.metadata_props.update(node.metadata_props)
            constant.doc_string = node.doc_string
            graph.insert_before(node, constant)
            new = constant.outputs[0]
            new.name = name
        else:
            tensor.name = name
            new = ir.Value(name=name, const_value=tensor)
            new.metadata_props.update({**node.metadata_props, **old.metadata_props})
            new.doc_string = old.doc_string or node.doc_string
            graph.register_initializer(new)
        same_type = isinstance(old.type, ir.TensorType) and old.dtype == tensor.dtype
        new.type = copy_type(old.type) if same_type and old.type is not None else ir.TensorType(tensor.dtype)
        is_interface = old.is_graph_output() and old.shape is not None
        new.shape = old.shape.copy() if is_interface and old.shape is not None else ir.Shape(tensor.shape.numpy())
        carry_annotations(old, new)
        old.replace_all_uses_with(new, replace_graph_outputs=True)

    def add(self, graph: ir.Graph, before: ir.Node, wish: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Make a new constant that a node of a graph can read."""
        name = self.names.value(wish)
        if self._only_nodes:
            constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], name=self.names.node(wish))
            graph.insert_before(before, constant)
            value = constant.outputs[0]
            value.name = name
        else:
            tensor.name = name
            value = ir.Value(name=name, const_value=tensor)
            graph.register_initializer(value)
        value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        return value
