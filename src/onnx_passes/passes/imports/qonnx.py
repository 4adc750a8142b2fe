"""Where version 0.4 had the import of QONNX models, which is always there now."""

from onnx_passes.passes.qonnx.import_qonnx import ImportQonnx as ImportQONNX

__all__ = ["ImportQONNX"]
