"""Tests of execzmq on Dask clusters."""
