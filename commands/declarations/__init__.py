"""The commands of `raykeeper` with their options, by theme.

lifecycle.py     up, init, down, recover, restart, transfer, drain, drain-server
monitoring.py    status, doctor, top, events, ui, grafana
members.py       members, and a command for each change of them
listings.py      sessions, locks, watches, tree, log
znodes.py        shell, copy
migration.py     import, export
backups.py       backup, restore
trials.py        demo, chaos
options.py       options that several of them have
joining.py       the Ray cluster and the ensemble that a command means

A function is a command: its arguments are options, its docstring is the help. It imports what it
does when it runs, because importing Ray takes longer than all the rest of `status`.
commands/command_line.py adds them to the command line, in the order of its help.
"""
