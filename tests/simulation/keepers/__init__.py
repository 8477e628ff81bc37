"""Two keepers under faults: servers on Ray nodes that vanish, flap, are cut off and return.

plans.py         the plan of a seed
ray_cluster.py   the machines with their disks, Ray's nodes and actors
node_faults.py   the faults of nodes
keeper_script.py a keeper: the steps of `KeeperLoop` on a simulated session and the simulated Ray
judge.py         the promises of the keeper
scenario.py      who takes part: two keepers, and clients that write and drain
world.py         the run, and its end: every vote comes back
"""
