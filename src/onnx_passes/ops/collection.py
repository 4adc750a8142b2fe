"""All operators that are defined here, found by what a node is called."""

from __future__ import annotations

from functools import cache

import onnx_ir as ir

from onnx_passes.ops.bipolar_quant import BipolarQuant
from onnx_passes.ops.channels_last import (
    ChannelsLastAveragePool,
    ChannelsLastBatchNormalization,
    ChannelsLastConv,
    ChannelsLastMaxPool,
)
from onnx_passes.ops.col2im import Col2Im
from onnx_passes.ops.debug_marker import DebugMarker
from onnx_passes.ops.definition import Definition
from onnx_passes.ops.float_quant import FloatQuant
from onnx_passes.ops.im2col import Im2Col
from onnx_passes.ops.layout_converter import LayoutConverter
from onnx_passes.ops.max_pool_nhwc import MaxPoolNHWC
from onnx_passes.ops.multi_threshold import MultiThreshold
from onnx_passes.ops.quant import Quant
from onnx_passes.ops.quant_avg_pool2d import QuantAvgPool2d
from onnx_passes.ops.trunc import Trunc, TruncToBits
from onnx_passes.ops.weighted_multi_threshold import WeightedMultiThreshold
from onnx_passes.ops.xnor_popcount_matmul import XnorPopcountMatMul

DEFINITIONS: tuple[Definition, ...] = (
    BipolarQuant(),
    ChannelsLastAveragePool(),
    ChannelsLastBatchNormalization(),
    ChannelsLastConv(),
    ChannelsLastMaxPool(),
    Col2Im(),
    DebugMarker(),
    FloatQuant(),
    Im2Col(),
    LayoutConverter(),
    MaxPoolNHWC(),
    MultiThreshold(),
    Quant(),
    QuantAvgPool2d(),
    Trunc(),
    TruncToBits(),
    WeightedMultiThreshold(),
    XnorPopcountMatMul(),
)


def definition_of(node: ir.Node) -> Definition | None:
    """Return the definition of the operator of a node, or nothing for standard and unknown ones."""
    if not node.domain:
        return None
    candidates = _by_name().get((node.domain, node.op_type), ())
    return next((definition for definition in candidates if definition.takes(node)), None)


@cache
def _by_name() -> dict[tuple[str, str], tuple[Definition, ...]]:
    table: dict[tuple[str, str], tuple[Definition, ...]] = {}
    for definition in DEFINITIONS:
        for domain in definition.domains:
            for name in (definition.name, *definition.aliases):
                table[domain, name] = (*table.get((domain, name), ()), definition)
    return table
