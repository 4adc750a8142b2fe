"""Operators of ONNX Runtime itself, in the domain ``com.microsoft``, for models that are deployed there."""
