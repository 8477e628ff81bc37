"""The job of `raykeeper demo`: workers count words and coordinate through znodes.

run.py          starts everything, kills two processes half-way, checks the counts
worker.py       a Ray actor: joins the group, joins the election, works or coordinates
coordinator.py  assigns pieces of text to workers, and takes over from a dead coordinator
job.py          the znodes of the job and their values
words.py        splits the input into pieces, and counts words
"""
