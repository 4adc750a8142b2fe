"""Passes that remove channels without influence."""
