"""The keeper: the small process that parents every command and outlives a killed server.

It owns spawning, the descriptors of the running commands and their exit statuses. It imports the standard
library only and must not know the log, the wire or the server.
"""
