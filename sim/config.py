"""The validated config tree: every key, its type, its default and its limits (design.md section 8).

Owns reading YAML, overrides and precise messages; leaves building objects to sim/api.py.
"""
