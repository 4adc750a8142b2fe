"""Passes between the forms of quantized networks: QONNX, QuantizeLinear/DequantizeLinear, integer operators."""
