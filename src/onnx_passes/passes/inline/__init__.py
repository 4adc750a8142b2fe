"""Passes that put the inside of something in its place."""
