"""What networks mean in exact arithmetic: numbers without rounding, and the values that they give a model."""
