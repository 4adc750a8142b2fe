"""Passes that check a model and change nothing."""
