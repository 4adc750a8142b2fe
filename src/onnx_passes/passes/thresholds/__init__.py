"""Passes on thresholds: infer, fuse, sort, convert and lower them."""
