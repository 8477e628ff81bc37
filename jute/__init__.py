"""ZooKeeper's wire protocol as bytes, both directions. Pure, and without a server.

frames.py      frames, and the payload of each
    schema.py      the record of each opcode's request and reply
    opcodes.py     the opcodes
    records.py     the records, as in `zookeeper.jute`
    multi.py       those of a multi, which have a form of their own
    fields.py      how the fields of a record are read and written
    archives.py    how a primitive type is
errors.py      the error of malformed bytes
"""
