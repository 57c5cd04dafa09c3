"""Running commands and their logs; nothing here knows of ZeroMQ, msgpack or who is asking."""
