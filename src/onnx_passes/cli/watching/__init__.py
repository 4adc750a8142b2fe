"""Runs that are repeated when their files change, and the page of the last one."""
