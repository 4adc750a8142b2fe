"""Output of a run for users: tables, differences, progress, pages."""
