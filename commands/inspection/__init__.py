"""`raykeeper inspect`: what the folder of a server holds. It only reads.

command.py           the commands of `inspect`
folder_contents.py   the files, their checksums, how they fit together: `list`, and for `verify`
verification.py      `verify`
dump.py              `dump`
differences.py       `diff`
transactions.py      transactions and their parts as documents and text
arguments.py         zxids as arguments
"""
