"""Rules that remove redundant nodes."""
