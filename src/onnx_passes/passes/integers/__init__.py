"""Shared parts of passes to integers: element types for integers, and integer twins of float values."""
