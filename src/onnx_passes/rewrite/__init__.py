"""Rewrite rules: onnxscript's pattern language, compiled, on a driver of our own."""
