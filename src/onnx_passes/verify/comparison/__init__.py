"""Whether results are what was promised, and how far off."""
