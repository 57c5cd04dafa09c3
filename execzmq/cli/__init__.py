"""The command line: one module per group of commands; each loads what it needs when it runs."""
