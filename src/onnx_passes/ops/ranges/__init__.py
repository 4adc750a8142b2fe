"""Rules of range analysis, by families of operators: which values a result can hold, given those of the inputs."""
