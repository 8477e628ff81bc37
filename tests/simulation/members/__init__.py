"""Ensembles whose members come and go, under the faults of the general workload.

plans.py   who founds the ensemble, and how often an operator asks for a step
world.py   the operator, and what must hold in the end
possible_lists.py   which lists may count somewhere, and damage.py: what they bear
moments.py          the moments of a step, and faults.py: faults that strike just then
lost_in_a_step.py   a majority of disks is lost while a step is open
every_step.py       one swap, with a kill at every event on its way
"""
