"""Random faults under load, and one checker of what must hold all the same."""
