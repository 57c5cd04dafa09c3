"""The server: sockets, requests, broadcasts; nothing here is imported by clients."""
