"""Execution of models: sessions, processes, limits."""
