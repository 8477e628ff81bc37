"""Ensembles whose members come and go, under the faults of the general workload.

plans.py   who founds the ensemble, and how often an operator asks for a step
world.py   the operator, and what must hold in the end
"""
