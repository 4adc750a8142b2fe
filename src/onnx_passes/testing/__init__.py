"""For authors of passes: the index of the collection, and tools for tests."""
