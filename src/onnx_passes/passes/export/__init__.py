"""Streamlined networks for those who run them: FINN, and any runtime of standard operators."""
