"""Ties: results that differ because a value lies on the edge of two levels, shown and not supposed."""
