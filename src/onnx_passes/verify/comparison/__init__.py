"""Comparison of results with the claims of passes, and the size of their differences."""
