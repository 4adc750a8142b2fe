"""Leave out initial states that are zero anyway."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead

_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Recurrent operators, and which of their inputs are initial states."""


@passes.verify.equality
@passes.register("eliminate")
class EliminateZeroState(Transformation):
    """Leave out initial states of recurrent operators that are zero, which they are by default.

    Rewrites: ``LSTM(x, w, r, b, , ConstantOfShape(s), ConstantOfShape(s))`` → ``LSTM(x, w, r, b)``; GRU and RNN alike.
    Refuses:  states that are not known to be zero, of positive sign, in every element.
    Exactness: bit-exact.
    """

    preserves = ("shape-inference", "topological-sort", "unique-names")

    def call(self, model: ir.Model) -> PassResult:
        """Look at the recurrent operators of the graph and its subgraphs."""
        modified = False
        for node in [node for node in all_nodes(model.graph) if node.domain == "" and node.op_type in _STATES]:
            for index in _STATES[node.op_type]:
                state = node.inputs[index] if index < len(node.inputs) else None
                if state is not None and _is_zero(state):
                    node.replace_input_with(index, None)
                    producer = state.producer()
                    if producer is not None:
                        remove_if_dead([producer])
                    modified = True
        return PassResult(model, modified=modified)


def _is_zero(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None and producer.op_type == "ConstantOfShape" and producer.domain == "":
        filling = producer.attributes.get("value")
        return filling is None or not any(filling.as_tensor().tobytes())
    array = constant(value)
    return array is not None and not any(array.tobytes())
