"""Figures of reproductions: one module a figure, in the style of sim/report/plots/figure.py.

Each function takes rows or runs and returns a matplotlib Figure. The modules import matplotlib, so
they are imported when a reproduction runs.
"""
