"""Operators of quantized networks: one definition each, from which execution, inference and documentation come."""
