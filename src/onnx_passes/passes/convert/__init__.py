"""Conversions between operator sets, floating-point types and dialects of ONNX."""
