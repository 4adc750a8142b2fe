"""Passes that change in which order the axes of images and sequences lie."""
