"""The magics `%execz` and `%%execz`, and what a cell shows: loaded by `%load_ext execzmq`."""
