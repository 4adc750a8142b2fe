"""Structural properties of models, and their notation."""
