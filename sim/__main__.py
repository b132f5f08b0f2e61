"""`python -m sim`: hands over to the command line."""

from sim.cli import entry

if __name__ == "__main__":
    entry()
