"""What an operator's change of the members does next: pure.

vocabulary.py    the plan, what is seen, and the acts
planning.py      from a request to a plan, and from a plan to its undoing
next_act.py      the next act, from the plan and what is seen
"""
