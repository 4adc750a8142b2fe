"""Debugging: bisection, reduction, reproducers, and explanations of matches."""
