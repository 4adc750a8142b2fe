"""Passes that run other passes."""
