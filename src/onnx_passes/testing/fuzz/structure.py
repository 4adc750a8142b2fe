"""Structure of a model without names and values, by which findings are compared."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.graph.hashing.fingerprint import structural_hash


def structure_of(model: bytes) -> str:
    """Return a digest that is independent of names, values and sizes of tensors."""
    known = ir.from_proto(onnx.ModelProto.FromString(model))
    for role in ("inputs", "outputs"):
        values: list[ir.Value] = list(getattr(known.graph, role))
        for number, value in enumerate(values):
            value.name = f"{role}{number}"
    for graph in known.graphs():
        for value in graph.initializers.values():
            value.const_value = _hollow(value.const_value)
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                    held = _hollow(attribute.as_tensor())
                    assert held is not None
                    node.attributes.add(ir.AttrTensor(attribute.name, held))
    return structural_hash(known).hex()[:8]


def _hollow(tensor: ir.TensorProtocol | None) -> ir.TensorProtocol | None:
    """Keep only the type and the rank."""
    if tensor is None or tensor.dtype is ir.DataType.STRING:
        return None if tensor is None else ir.StringTensor([], shape=ir.Shape([0]))
    return ir.Tensor(np.zeros([1] * len(tensor.shape), tensor.dtype.numpy()), tensor.dtype)
