"""Passes that find out and check the data types of tensors."""
