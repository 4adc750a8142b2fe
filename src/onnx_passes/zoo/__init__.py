"""Zoos: many models under one pipeline, what came of each, and what changed from one run to the next."""
