"""Remove initial states that equal the default of zero."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "initial state that is zero"
_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Recurrent operators, and the indices of their initial states."""


@passes.verify.equality
@passes.register("eliminate")
class EliminateZeroState(EditorPass):
    """Drop initial states of recurrent operators that are zero, which is their default.

    Rewrites: ``LSTM(x, w, r, b, , ConstantOfShape(s), ConstantOfShape(s))`` → ``LSTM(x, w, r, b)``; likewise for GRU
              and RNN.
    Refuses:  states not known to be positive zero in every element.
    Exactness: bit-exact.
    """

    preserves = ("shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Rewrite the recurrent operators of the graph and its subgraphs."""
        for node in [node for node in all_nodes(model.graph) if node.domain == "" and node.op_type in _STATES]:
            given = {i: state for i in _STATES[node.op_type] if i < len(node.inputs) and (state := node.inputs[i])}
            zero = {index for index, state in given.items() if _is_zero(state)}
            for index, state in given.items():
                if index not in zero:
                    editor.refuse(_RULE, "its initial state is not known to be zero", node, at=state)
            if zero:
                with editor.rewrite(_RULE, node) as r:
                    inputs = [None if index in zero else value for index, value in enumerate(node.inputs)]
                    r.op.like(node, inputs)
                    results = zip(node.outputs, r.op.nodes[-1].outputs, strict=True)
                    r.replace_all({old: new for old, new in results if old.name})


def _is_zero(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None and producer.op_type == "ConstantOfShape" and producer.domain == "":
        filling = producer.attributes.get("value")
        return filling is None or not any(filling.as_tensor().tobytes())
    array = constant(value)
    return array is not None and not any(array.tobytes())
