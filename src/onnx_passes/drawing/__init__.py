"""Drawings of graphs: selection of nodes, layout, and output files.

The package is not named ``draw`` like the function, which its import would shadow.
"""
