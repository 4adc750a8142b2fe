"""Which rule finds the range of which operator."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_passes.analysis.ranges.activations import ACTIVATIONS
from onnx_passes.analysis.ranges.convolutions import CHANNELS_LAST_CONVOLUTIONS, CONVOLUTIONS
from onnx_passes.analysis.ranges.einsum import EINSUM
from onnx_passes.analysis.ranges.elementwise import ELEMENTWISE
from onnx_passes.analysis.ranges.movement import MOVEMENT, QUANTIZED_MOVEMENT
from onnx_passes.analysis.ranges.normalization import CHANNELS_LAST_NORMALIZATION, NORMALIZATION
from onnx_passes.analysis.ranges.pooling import CHANNELS_LAST_POOLING, POOLING, QUANTIZED_POOLING
from onnx_passes.analysis.ranges.products import BINARY_PRODUCTS, PRODUCTS
from onnx_passes.analysis.ranges.quantizers import LINEAR_QUANTIZERS, QUANTIZERS
from onnx_passes.analysis.ranges.site import Rule
from onnx_passes.analysis.ranges.thresholds import THRESHOLDS, WEIGHTED_THRESHOLDS
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, GENERAL_DOMAINS, OUR_DOMAIN

_STANDARD = {
    **ELEMENTWISE,
    **ACTIVATIONS,
    **MOVEMENT,
    **NORMALIZATION,
    **POOLING,
    **PRODUCTS,
    **CONVOLUTIONS,
    **EINSUM,
    **LINEAR_QUANTIZERS,
}
_QUANTIZED = {**QUANTIZERS, **QUANTIZED_MOVEMENT, **QUANTIZED_POOLING, **BINARY_PRODUCTS, **THRESHOLDS}
_CHANNELS_LAST = {**CHANNELS_LAST_CONVOLUTIONS, **CHANNELS_LAST_NORMALIZATION, **CHANNELS_LAST_POOLING}
_CONTRIBUTED = {
    "DequantizeLinear": LINEAR_QUANTIZERS["DequantizeLinear"],
    "Gelu": ACTIVATIONS["Gelu"],
    "QuantizeLinear": LINEAR_QUANTIZERS["QuantizeLinear"],
}

RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): rule for name, rule in _STANDARD.items()},
    **{("com.microsoft", name): rule for name, rule in _CONTRIBUTED.items()},
    **{(domain, name): rule for domain in GENERAL_DOMAINS for name, rule in _QUANTIZED.items()},
    **{(OUR_DOMAIN, name): rule for name, rule in WEIGHTED_THRESHOLDS.items()},
    **{(CHANNELS_LAST_DOMAIN, name): rule for name, rule in _CHANNELS_LAST.items()},
}
"""The rule of each operator, by domain and name; of other operators nothing is known."""
