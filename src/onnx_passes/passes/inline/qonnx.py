"""Where version 0.4 had the inlining of QONNX operators, which is always there now."""

from onnx_passes.passes.qonnx.inline_qonnx import InlineQonnx as InlineQONNXQuant

__all__ = ["InlineQONNXQuant"]
