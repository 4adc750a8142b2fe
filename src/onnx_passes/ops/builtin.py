"""All operators that are defined here: importing this makes them known."""

from __future__ import annotations

import importlib

_MODULES = (
    *("bipolar_quant", "channels_last", "col2im", "debug_marker", "finn_layers", "float_quant", "im2col"),
    *("layout_converter", "max_pool_nhwc", "multi_threshold", "quant", "quant_avg_pool2d", "trunc"),
    *("weighted_multi_threshold", "xnor_popcount_matmul"),
)
for _module in _MODULES:
    importlib.import_module(f"onnx_passes.ops.{_module}")
