"""Conversion of a model between versions of the default operator set."""
