"""`raykeeper inspect` and `raykeeper log`: what the folder of a server holds. They only read.

command.py           the commands of `inspect`; `log` is in commands/declarations/listings.py
folder_contents.py   the files, their checksums, how they fit together: `list`, and for `verify`
verification.py      `verify`
dump.py              `dump`
differences.py       `diff`
audit_log.py         `log`
transactions.py      transactions and their parts as documents and text
arguments.py         zxids, times and session ids as arguments
"""
