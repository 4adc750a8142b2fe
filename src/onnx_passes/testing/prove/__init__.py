"""Prove rules: each on a family of small models that it rewrites, for all values that they may be given."""
