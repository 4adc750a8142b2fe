"""Passes that infer and check the data types of tensors."""
