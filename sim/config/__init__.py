"""The validated config tree: every key, its type, its default and its limits (design.md section 8).

Owns reading YAML, overrides and precise messages. Leaves to sim/api what needs the upper layers:
building traces, cost models and policies, and checking the options that those declare themselves.

    source.py      a config as written: values, line numbers, overrides, and errors that name them
    tree.py        the sections and their keys
    parse.py       from a source to the tree
    messages.py    pydantic's findings in this project's words
    parameters.py  the parameters a policy class declares, checked and completed
"""

from sim.config.parse import parse_config
from sim.config.source import Source, read_source
from sim.config.tree import Config

__all__ = ["Config", "Source", "parse_config", "read_source"]
