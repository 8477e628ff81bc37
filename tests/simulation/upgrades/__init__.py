"""Ensembles whose servers change their programs, under the faults of the general workload.

plans.py   when which server gets which program
world.py   does it, and checks the rules of docs/UPGRADING.md
"""
