"""Passes that only annotate values."""
