"""Integer networks as backends want them: layers in order, with their integers, types and ranges."""
