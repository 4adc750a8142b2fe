"""Passes that remove what makes no difference."""
