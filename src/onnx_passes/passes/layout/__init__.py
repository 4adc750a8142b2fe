"""Passes that change the axis order of images and sequences."""
