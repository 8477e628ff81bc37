"""The decisions of the keeper: when a server whose node is lost moves, and where to. Pure.

vocabulary.py    what the keeper sees, decides and does
pauses.py        how long it waits between two moves
targets.py       the node to which a server moves
healing.py       the decisions of one leadership: views and answers in, effects out
move_steps.py    a move, its undoing and the setting aside of folders, step by step
keeper_loop.py   all that an elected keeper does, in order
"""
