"""The protocol without IO: frames, methods, calls, cursors and the memory of answered requests."""
