"""Bytes between ZooKeeper's clients and Debian's ZooKeeper, replayed into a pure server.

recorder.py   a proxy that writes down every frame of both directions
replay.py     sends what a client sent to a pure server, and reads what it answers
data/         one recording of each client

python -m tests.recordings             record all clients anew
python -m tests.recordings c node      some of them
"""
