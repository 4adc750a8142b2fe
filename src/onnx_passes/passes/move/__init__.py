"""Moving data movement: each mover in one direction, past all that it commutes with."""
