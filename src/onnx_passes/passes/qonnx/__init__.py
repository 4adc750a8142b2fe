"""The dialects of QONNX, Brevitas and FINN: in, out, and in terms of standard operators."""
