"""Passes that fuse several operators into one."""
