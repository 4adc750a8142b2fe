"""Passes that lower an operator to simpler ones."""
