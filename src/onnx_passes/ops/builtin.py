"""All operators that are defined here: importing this makes them known."""

from __future__ import annotations

import importlib

_MODULES = (
    *("channels_last", "finn_layers", "float_quant", "im2col"),
    *("layout_converter", "max_pool_nhwc", "multi_threshold", "quant", "trunc"),
    *("weighted_multi_threshold", "xnor_popcount_matmul"),
)
for _module in _MODULES:
    importlib.import_module(f"onnx_passes.ops.{_module}")
