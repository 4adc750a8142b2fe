"""Compute single nodes on constants by ONNX Runtime, as a model does that folds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.randomness import is_random
from onnx_passes.proofs.meaning import Call

_MOST = 1 << 20


def computed(call: Call) -> list[np.ndarray] | None:
    """Return what ONNX Runtime makes of a node whose inputs are known; nothing if it cannot."""
    import onnx
    import onnxruntime as ort

    onnxruntime: Any = ort

    node = call.node
    arrays = [None if tensor is None else tensor.known for tensor in call.inputs]
    if is_random(node) or sum(array.size for array in arrays if array is not None) > _MOST:
        return None
    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    outputs = [f"y{index}" for index in range(len(node.outputs))]
    attributes = [ir.to_proto(attr) for attr in call.attributes.values()]
    proto = onnx.NodeProto(op_type=node.op_type, input=names, output=outputs, attribute=attributes)
    initializers = [
        ir.to_proto(ir.Tensor(array, name=name)) for name, array in zip(names, arrays, strict=True) if array is not None
    ]
    graph = onnx.GraphProto(
        name="constant", node=[proto], initializer=initializers, output=[onnx.ValueInfoProto(name=n) for n in outputs]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.version)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run(None, {})]
    except Exception:  # noqa: BLE001 - whatever it cannot compute stays as it is written
        return None
