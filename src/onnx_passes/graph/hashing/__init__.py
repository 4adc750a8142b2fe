"""Digests of models, independent of names and order of nodes."""
