"""Analyses: what can be said of a model without changing it."""
