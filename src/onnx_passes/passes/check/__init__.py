"""Passes that look for faults and change nothing."""
