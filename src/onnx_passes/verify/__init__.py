"""Verification: the claims that passes make."""
