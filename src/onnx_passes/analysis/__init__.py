"""Analyses of a model, which never change it."""
