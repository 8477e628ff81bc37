"""Benchmarks: the paper's evaluation as commands, and single parts as scripts.

command.py                       the command `raykeeper bench`, one command for each experiment
    experiment_run.py            what all experiments share: the systems, progress, results
experiments/                     one file for each: its sizes, what it does, its plot
    contract.py                  what an experiment is
systems/                         the measured systems: Raykeeper, ZooKeeper, etcd; start, kill, stop
    contract.py                  what a system can do
loads/                           client processes that generate load
    task.py                      the arguments of a process, and its report
    processes.py                 starts the processes at the same moment, and collects the reports
    generate.py, Load.java       the processes
measures.py                      percentiles, rates, gaps, ratios: pure
results.py, plots.py             CSV and PNG
core.py, client.py, listing.py, crowd.py, bystander.py
                                 single parts without Ray, as scripts: python bench/core.py
pure_ensemble.py, populated_servers.py   the servers of core.py and of the experiment `growth`

Paper: ZooKeeper (Hunt, Konar, Junqueira, Reed, USENIX ATC 2010), section 5.
"""
