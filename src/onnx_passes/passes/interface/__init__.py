"""Passes that change the inputs and outputs of a model: sizes, data types, ranges, names."""
