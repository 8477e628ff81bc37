"""The command `raykeeper`.

command_line.py     which commands it has
declarations/       the commands with their options, by theme
exit_codes.py       the exit codes, and those of errors
packages.py         packages that only some commands need
reports.py          the reports of `status`, `up`, `demo` and `chaos`: a table, or a document
tables.py           the tables for operators: `sessions`, `locks`, `watches`, `tree`
top.py              `raykeeper top`
event_follower.py   `raykeeper events --follow`
output.py           consoles and JSON documents
shell.py            `raykeeper shell`
settings_file.py    `raykeeper init`
demo/               the job of `raykeeper demo`

The experiments of `raykeeper bench` are declared in bench/command.py.
"""
