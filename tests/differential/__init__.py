"""One random program against ZooKeeper and against this server: every answer must be the same.

programs.py          the steps of a program, drawn from a seed
targets.py           where a program runs: a TCP port, or pure servers in memory
execution.py         runs a program over bytes, and returns what each session was told
transcripts.py       masks what may differ: zxids become their order, ids names, times nothing
known_differences.py what differs by intention, each with its reason
comparison.py        compares two transcripts, and makes a failing program smaller
zookeeper_server.py  a server of Debian's package `zookeeper`, or of other jars, as a child process

python -m tests.differential --seeds 1000 --from 1
python -m tests.differential --seed 17                         one program, both transcripts
python -m tests.differential --seeds 1000 --address 127.0.0.1:2181   a real port of Raykeeper
"""
