"""Data types of any precision: their names, their values, and arithmetic on them."""
