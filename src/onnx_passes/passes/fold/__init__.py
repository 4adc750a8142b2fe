"""Passes that fold computations that do not depend on the data."""
