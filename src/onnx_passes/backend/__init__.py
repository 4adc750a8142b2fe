"""Integer networks for backends: layers in order, with their integers, types and ranges."""
