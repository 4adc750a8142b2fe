"""Passes that tidy a model and keep its results."""
