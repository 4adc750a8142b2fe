"""Reduce a failing model to the least that still fails the same way."""
