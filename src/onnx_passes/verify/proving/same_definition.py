"""Operators that get another name, domain or spelling of their attributes and keep their definition."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.records import NodeUpdate
from onnx_passes.graph.edits import detach
from onnx_passes.ops.definition import definition_of
from onnx_passes.proofs.proof import Proof, Unproved

METHOD = "the same definition"


def prove_same_definition(node: ir.Node, update: NodeUpdate) -> Proof | Unproved:
    """Compare the definitions of a node before and after an update, and the attributes that these read."""
    kept = {name: attribute for name, attribute in node.attributes.items() if name not in update.attributes}
    attributes = (*kept.values(), *(attribute for attribute in update.attributes.values() if attribute is not None))
    domain, op_type = update.fields.get("domain", node.domain), update.fields.get("op_type", node.op_type)
    new = ir.Node(domain, op_type, node.inputs, attributes, num_outputs=len(node.outputs))
    try:
        old_definition, definition = definition_of(node), definition_of(new)
        if definition is None or old_definition is not definition or "overload" in update.fields:
            return Unproved("it becomes another operator, or one that is not defined here")
        if definition.checked(node) != definition.checked(new):
            return Unproved("attributes are changed in place")
    finally:
        detach(new)
    return Proof("proved-here", METHOD, (f"{node.op_type} of {node.domain} is {op_type} of {domain}",))
