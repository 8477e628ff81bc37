"""Commanding: the command `raykeeper`.

command_line.py     its commands and exit codes
status_report.py, demo_report.py, chaos_report.py   what they tell: a table, or a document
shell.py            `raykeeper shell`
settings_file.py    `raykeeper init`
consoles.py         printing texts as they are
documents.py        printing JSON

The experiments of `raykeeper bench` are declared in bench/command.py.
"""
