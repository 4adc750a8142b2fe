"""What families of operators mean, a file each."""
