"""The client's side: talks to a server, or to a backend in this Python, for its caller."""
