"""Run the command line as `python -m execzmq`."""

from execzmq.cli.main import main

if __name__ == "__main__":
    main()
