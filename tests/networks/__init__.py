"""Hosts, cuts, losses and delays: what execzmq does where the network between client and server fails."""
