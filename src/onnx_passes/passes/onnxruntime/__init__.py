"""Fusions into operators of ONNX Runtime's own domain ``com.microsoft``, for models that are deployed there."""
