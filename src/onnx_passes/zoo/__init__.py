"""Zoos: many models under one pipeline, their results, and the changes from one run to the next."""
