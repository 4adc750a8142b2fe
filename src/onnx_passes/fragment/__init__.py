"""Fragments of models: cut out, numbered, built as models, run and evaluated by themselves."""
