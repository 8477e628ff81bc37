"""Commanding: the command `raykeeper`.

command_line.py   its commands and exit codes; loads what a command needs when it runs
status_table.py   what `status` and `up` print
shell.py          `raykeeper shell`

Its other commands are beside what they do: bench/command.py, clusters/demo/, clusters/chaos/.
"""
