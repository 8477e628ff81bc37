"""Measuring: the paper's evaluation as commands, and single parts alone as scripts.

command.py                       the command `raykeeper bench`, one command for each experiment
    experiment_run.py                       what all experiments share: whom to measure, progress,
        results
experiments/                     one file for each: its sizes, what it does, its plot
    contract.py                  what an experiment is
systems/                         what is measured: Raykeeper, ZooKeeper, etcd; start, kill, stop
    contract.py                  what a system can do
loads/                           client processes that generate load
    task.py                      what a process is told, and what it reports
    processes.py                 starts them, all at the same moment, and gathers the reports
    generate.py, Load.java       the processes
measures.py                      percentiles, rates, gaps, ratios: pure
results.py, plots.py             CSV and PNG
core.py, client.py, listing.py   single parts without Ray, as scripts: python bench/core.py
pure_ensemble.py, populated_servers.py      the servers of core.py and of the experiment `growth`

Paper: ZooKeeper (Hunt, Konar, Junqueira, Reed, USENIX ATC 2010), section 5.
"""
