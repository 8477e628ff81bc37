"""The job of `raykeeper demo`: count words with workers that come to terms through znodes.

run.py          starts everything, kills two processes half-way, checks the counts
worker.py       a Ray actor: joins the group, stands for election, works or coordinates
coordinator.py  assigns pieces of text to workers, and takes over from one that died
job.py          which znodes there are and what they hold
words.py        the input, cut into pieces, and the counting
"""
