"""Streamlining: computing quantized networks in integers."""
