"""Semantics of operators, written once over any number system."""
