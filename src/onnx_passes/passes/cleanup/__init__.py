"""Passes that tidy a model without changing what it computes."""
