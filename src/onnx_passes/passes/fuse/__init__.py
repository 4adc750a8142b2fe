"""Passes that put one operator in the place of several."""
