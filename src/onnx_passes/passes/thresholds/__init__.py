"""Passes on thresholds: finding, fusing, sorting and spelling them out."""
