"""The interactive session: a model, what was done to it, and every way back."""
