"""Every recipe in the simulated worlds, under the same faults, judged by who sees all its members.

script.py     a thread of a user's program: calls of recipes, pauses, second thoughts
process.py    what the recipes of one process work with: real flows over a real client
member.py     a client whose processes come and go
scenario.py   what the members do, and what is judged of it
holders.py    who believes to hold what, at any moment, and in which order it was given
catalogue.py  the scenarios by name: one file each
plans.py      which faults a seed means for members
world.py      the world of a scenario: faults, then progress, and nothing left behind
"""
