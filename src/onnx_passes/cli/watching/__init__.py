"""Runs that are repeated when their files change, and the page that shows the last one."""
