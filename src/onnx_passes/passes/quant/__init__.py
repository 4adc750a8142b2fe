"""Conversions between forms of quantized networks: QONNX, QuantizeLinear/DequantizeLinear, integer operators."""
