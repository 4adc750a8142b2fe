"""Random models judged whole: many operators, any passes in any order, two engines."""
