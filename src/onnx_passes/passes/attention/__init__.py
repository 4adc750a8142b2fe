"""Fuse attention, rotary embeddings and masks of exported graphs into single operators."""
