"""Number systems: what semantics of operators are evaluated in."""
