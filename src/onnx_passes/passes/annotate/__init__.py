"""Passes that only add to what is known of values."""
