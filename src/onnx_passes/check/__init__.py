"""Verdicts on claims about two models, with their evidence and the wrong rewrite."""
