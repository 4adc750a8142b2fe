"""Passes that put simpler operators in the place of one."""
