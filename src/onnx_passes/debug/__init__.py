"""Tools to find out what went wrong, and where."""
