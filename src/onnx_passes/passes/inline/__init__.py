"""Passes that replace calls and composite operators by their definitions."""
