"""Changes of what is not computed: names, order, declarations, what nobody uses, and what is known to be the same."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.records import Application, NodeUpdate
from onnx_passes.graph.edits import detach
from onnx_passes.ops.collection import definition_of
from onnx_passes.proofs.proof import Proof, Unproved

METHOD = "nothing computed changes"


def prove_unchanged(application: Application) -> Proof | Unproved:
    """See what an application says of itself."""
    if application.settled and application.replaced:
        said = "old and new values share their bits, or the kernel that computes the old ones computed the new ones"
        return Proof("proved-here", METHOD, (said,))
    if application.versions:
        return Unproved("operators are read in another version of their set")
    if application.update is not None and application.root is not None:
        return _same_operator(application.root, application.update)
    if not application.replaced and not application.added:
        said = "no value is replaced, and no node is added"
        return Proof("proved-here", METHOD, (said,))
    return Unproved("values are replaced" if application.replaced else "nodes are added")


def _same_operator(node: ir.Node, update: NodeUpdate) -> Proof | Unproved:
    """See whether a node keeps its definition and what it says of the attributes, under another name or spelling."""
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
    return Proof("proved-here", "the same definition", (f"{node.op_type} of {node.domain} is {op_type} of {domain}",))
