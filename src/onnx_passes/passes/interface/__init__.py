"""What a model is given: sizes, data types and ranges of its inputs."""
