"""Passes between versions and dialects of ONNX."""
