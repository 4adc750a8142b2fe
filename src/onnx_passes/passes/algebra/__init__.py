"""Laws of algebra, as few generic rules on operator traits: grouping, distributing, normal forms, comparisons."""
