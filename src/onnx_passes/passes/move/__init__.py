"""Passes that move data movement past the operators with which it commutes."""
