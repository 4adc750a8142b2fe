"""Import, export and lowering of the dialects of QONNX, Brevitas and FINN."""
