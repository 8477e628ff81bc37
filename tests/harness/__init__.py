"""The harness of the tests: virtual time, servers, clients, links and disks in memory.

datadriven.py         tests that are text files of commands and of their output
schedule.py           virtual time: a clock that jumps from one planned action to the next
event_loops.py        event loops with virtual time, or with time that moves on demand
pure_servers.py       pure servers without a shell, on links that a test can hold and cut
caller.py             one client connection of a pure server
log_entries.py        the entries of a log, and the runs that carry them
sim_disk.py           a disk in memory that fails as disks do; log_space.py is its space
recipe_stage.py       pure servers and pure clients together, for recipes
memory_links.py       links inside one process, which keep the promises of links and can be cut
client_stage.py       the blocking client on a loop whose time stands still
scripted_ensemble.py  an ensemble that speaks the real frames and fails on demand
zab_world.py          Zab peers, their links and disks (zab_disk.py), without servers around them
zab_scenario.py       the steps of timelines in a `ZabWorld`, most of which are texts
zab_text.py           what servers do in Zab as lines
zab_properties.py     the properties of Zab that a `ZabWorld` must keep

The simulator of whole servers and clients under faults is tests/simulation.
"""
