"""Where commands can run: names in `environments.toml`, and how each becomes a backend."""
