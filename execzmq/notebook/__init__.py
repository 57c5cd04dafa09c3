"""Own what a notebook shows of processes; sits on the public API of clients alone."""
