"""One word for the usual simplification of a model."""
