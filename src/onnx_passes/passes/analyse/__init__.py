"""Analyses: passes that measure a model without changing it."""
