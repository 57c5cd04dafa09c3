"""Ways to turn the parameters of a start into a running process."""
