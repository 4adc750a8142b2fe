"""Passes that look at a model and say what they find."""
