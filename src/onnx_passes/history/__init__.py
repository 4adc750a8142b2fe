"""The history of a run: versions of nodes and values, and the events that added and removed them."""
