"""Facts of operators, one module for each kind: traits, signs, work, sums, critical values, demands, risks."""
