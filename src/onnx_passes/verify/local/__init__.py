"""Parts of a model, run by themselves."""
