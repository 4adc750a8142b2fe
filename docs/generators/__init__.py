"""Pages of the documentation that are generated from the package."""
