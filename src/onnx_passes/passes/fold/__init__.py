"""Passes that compute beforehand what does not depend on the data."""
