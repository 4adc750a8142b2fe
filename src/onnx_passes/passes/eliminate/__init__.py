"""Rules that remove what does nothing, or what is there already."""
