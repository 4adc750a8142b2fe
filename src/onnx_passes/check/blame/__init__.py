"""Which step, rewrite and value is at fault when results differ."""
