"""Proofs that two computations are the same: of a rule for all that it applies to, or of one application."""
