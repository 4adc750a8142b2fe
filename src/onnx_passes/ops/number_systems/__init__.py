"""Functions of operators in each number system: numbers of a type, terms, bounds of rounding, real numbers, fields."""
