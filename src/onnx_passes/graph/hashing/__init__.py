"""Digests of models: the same whatever names and order their nodes have."""
