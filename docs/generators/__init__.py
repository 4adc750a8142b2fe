"""Pages of the documentation that are made from the package itself."""
