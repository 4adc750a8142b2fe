"""Types that numpy or ONNX Runtime cannot hand over, carried across the boundary in a wider one without loss."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.verify.run.child import with_maps_as_arrays

WIDER_TYPES = {
    **dict.fromkeys(
        (
            ir.DataType.BFLOAT16,
            ir.DataType.FLOAT8E4M3FN,
            ir.DataType.FLOAT8E4M3FNUZ,
            ir.DataType.FLOAT8E5M2,
            ir.DataType.FLOAT8E5M2FNUZ,
            ir.DataType.FLOAT4E2M1,
        ),
        ir.DataType.FLOAT,
    ),
    ir.DataType.INT4: ir.DataType.INT8,
    ir.DataType.INT2: ir.DataType.INT8,
    ir.DataType.UINT4: ir.DataType.UINT8,
    ir.DataType.UINT2: ir.DataType.UINT8,
}
_SUFFIX = "//wider"


class Boundary:
    """Casts at the inputs and outputs of a proto, and the way back for arrays."""

    def __init__(self, proto: onnx.ModelProto, outputs: list[tuple[str, ir.DataType | None]]) -> None:
        self._inputs: dict[str, ir.DataType] = {}
        self._outputs: dict[str, tuple[str, ir.DataType | None]] = {}
        heads: list[onnx.NodeProto] = []
        for value in proto.graph.input:
            dtype = ir.DataType(value.type.tensor_type.elem_type)
            if dtype in WIDER_TYPES:
                heads.append(_cast(value.name + _SUFFIX, value.name, dtype))
                self._inputs[value.name] = dtype
                value.name += _SUFFIX
                value.type.tensor_type.elem_type = WIDER_TYPES[dtype].value
        if heads:
            nodes = [*heads, *proto.graph.node]
            del proto.graph.node[:]
            proto.graph.node.extend(nodes)
        self._choose_outputs(proto, outputs)

    def _choose_outputs(self, proto: onnx.ModelProto, outputs: list[tuple[str, ir.DataType | None]]) -> None:
        declared = {value.name: value for value in proto.graph.output}
        chosen: list[onnx.ValueInfoProto] = []
        for name, dtype in outputs:
            if dtype is not None and dtype in WIDER_TYPES:
                proto.graph.node.append(_cast(name, name + _SUFFIX, WIDER_TYPES[dtype]))
                self._outputs[name] = (name + _SUFFIX, dtype)
                chosen.append(onnx.ValueInfoProto(name=name + _SUFFIX))
            else:
                self._outputs[name] = (name, None)
                chosen.append(declared.get(name) or onnx.ValueInfoProto(name=name))
        del proto.graph.output[:]
        proto.graph.output.extend(chosen)

    @property
    def names(self) -> list[str]:
        """List the outputs in order."""
        return list(self._outputs)

    @property
    def outside(self) -> dict[str, str]:
        """Map outputs to what they are called at the boundary."""
        return {name: outside for name, (outside, _) in self._outputs.items()}

    def inward(self, name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
        """Widen an input."""
        dtype = self._inputs.get(name)
        if dtype is None:
            # Numpy makes scalars, which ONNX Runtime refuses, of what it computes with arrays of rank 0.
            return name, np.asarray(array) if isinstance(array, np.generic) else array
        return name + _SUFFIX, np.asarray(array).astype(WIDER_TYPES[dtype].numpy())

    def outward(self, names: list[str], arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Narrow outputs again, by their own names."""
        named: dict[str, np.ndarray] = {}
        for name, array in zip(names, arrays, strict=True):
            dtype = self._outputs[name][1]
            named[name] = array if dtype is None else array.astype(dtype.numpy())
        return with_maps_as_arrays(named.items())


def _cast(source: str, target: str, dtype: ir.DataType) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [target], to=dtype.value)
