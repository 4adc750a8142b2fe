"""Proofs of one application where it stands: cheap methods that look at what is taken out and what is put in."""
