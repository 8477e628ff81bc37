"""The recovery of an ensemble that has lost the majority of its disks.

evidence.py      what a folder holds, read on its node
judgement.py     who holds what, what is lost, and what a launch could do: a pure decision
survey.py        asks all nodes
founding.py      founds the new history on the nodes
"""
