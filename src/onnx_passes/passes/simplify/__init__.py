"""The usual simplification of a model."""
