"""Number systems in which semantics of operators are evaluated."""
