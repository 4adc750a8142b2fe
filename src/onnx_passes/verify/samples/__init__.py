"""Data that models are run on: read from files, or generated."""
