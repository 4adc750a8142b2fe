"""Small networks that ONNX Runtime's own tools quantize, with weights from a fixed seed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tests.helpers.networks import Net

SIGNED, UNSIGNED, WIDE = QuantType.QInt8, QuantType.QUInt8, QuantType.QUInt16
WAYS: dict[str, dict[str, Any]] = {
    "qdq_s8s8_pc": {"activation_type": SIGNED, "weight_type": SIGNED, "per_channel": True},
    "qdq_u8s8": {"activation_type": UNSIGNED, "weight_type": SIGNED},
    "qdq_u16s8": {"activation_type": WIDE, "weight_type": SIGNED},
    "qop_u8u8": {"activation_type": UNSIGNED, "weight_type": UNSIGNED, "quant_format": QuantFormat.QOperator},
}


class Images(CalibrationDataReader):
    """Random images for calibration."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._images = iter([{"x": random.normal(size=(1, 1, 12, 12)).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> Any:
        return next(self._images, None)


def cnn() -> onnx.ModelProto:
    """Convolutions with Relu, an average over all pixels, and a fully connected layer."""
    net, last = Net("float[1,1,12,12] x", "float[1,4] y", opset=17), "x"
    for layer, (a, b, stride) in enumerate(((1, 6, 1), (6, 8, 2), (8, 8, 2)), 1):
        operands = f"{last}, {net.weight(f'w{layer}', b, a, 3, 3)}, {net.weight(f'b{layer}', b)}"
        net.add(f"c{layer} = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[{stride},{stride}]>({operands})")
        net.add(f"r{layer} = Relu(c{layer})")
        last = f"r{layer}"
    net.add(f"g = GlobalAveragePool({last}) f = Flatten(g)")
    net.add(f"y = Gemm<transB=1>(f, {net.weight('w', 4, 8)}, {net.weight('b', 4)})")
    return ir.to_proto(net.model())


def quantized_cnn(way: str) -> onnx.ModelProto:
    """Quantize with ranges found by running the network."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        quantize_static(cnn(), path, Images(), **WAYS[way])
        return onnx.load(path)


def quantized_lstm() -> onnx.ModelProto:
    """Quantize a table, and the weights of an LSTM and of a layer, whose inputs are quantized as it runs."""
    net = Net("int64[7,1] x", "float[7,4] y", opset=17)
    parameters = f"{net.weight('w', 2, 32, 6)}, {net.weight('r', 2, 32, 8)}, {net.weight('b', 2, 64)}"
    net.add(f"e = Gather<axis=0>({net.weight('table', 9, 6)}, x)")
    net.add(f'o, h, c = LSTM<hidden_size=8, direction="bidirectional">(e, {parameters})')
    net.add(f"f = Reshape(o, {net.constant('to', [7, 16])}) y = MatMul(f, {net.weight('d', 16, 4)})")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        quantize_dynamic(ir.to_proto(net.model()), path, weight_type=SIGNED)
        return onnx.load(path)
