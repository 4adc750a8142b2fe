"""Measures of the architecture, none of which may rise."""
