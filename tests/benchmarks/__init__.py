"""Measures of execzmq against plain subprocess, each as a ratio from one run on one machine."""
