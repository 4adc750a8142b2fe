"""Streamlining: quantized networks in integers."""
