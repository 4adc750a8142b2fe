"""Attention and what belongs to it: recognised in whatever way it is written, and put into operators of its own."""
