"""Operators that pick elements in ways that are easier run than written: they are run on the places of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call


def _picked(call: Call) -> Tensor:
    """Run the operator on the numbers of places, and take the elements that are there."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    x = call.tensor(0)
    elements = x.elements(call.algebra)
    names = ["" if tensor is None else f"x{index}" for index, tensor in enumerate(call.inputs)]
    feeds = {name: np.asarray(call.known(index)) for index, name in enumerate(names) if name and index}
    feeds["x0"] = np.arange(elements.size, dtype=np.float64).reshape(elements.shape)
    node = onnx.NodeProto(
        op_type=call.node.op_type,
        input=names,
        output=["y"],
        attribute=[ir.to_proto(attr) for attr in call.attributes.values()],
    )
    graph = onnx.GraphProto(
        name="places",
        node=[node],
        input=[onnx.ValueInfoProto(name=name) for name in feeds],
        output=[onnx.ValueInfoProto(name="y")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.version)])
    try:
        evaluator: Any = ReferenceEvaluator(model)
        (places,) = evaluator.run(None, feeds)
    except Exception as error:
        raise UnsupportedError(f"{call.node.op_type} could not be run on places: {error}") from error
    whole = np.round(np.asarray(places)).astype(np.int64)
    if not np.array_equal(whole, places) or (whole.size and (whole.min() < 0 or whole.max() >= elements.size)):
        raise UnsupportedError(f"{call.node.op_type} does more than picking elements")
    return Tensor(x.dtype, None, elements.reshape(-1)[whole])


@MEANINGS.of("Resize", "Upsample")
def _resize(call: Call) -> Tensor:
    if call.get("mode", "nearest") != "nearest":
        raise UnsupportedError("Resize that interpolates")
    return _picked(call)
