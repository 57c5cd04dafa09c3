"""What a command may do on this host: profiles, their narrowing, and what enforces them."""
