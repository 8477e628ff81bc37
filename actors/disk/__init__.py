"""The durable store of a replica.

opening.py          how a replica opens its store, damaged or not
storage.py          what the rest sees: open, recover, perform effects, close
disk_thread.py      a thread that performs all that waits in one go (group commit)
identity.py         whose folder it is, and the lock on it
repair.py           a disk that is corrupt begins anew
epochs.py           the two promises
log.py              the log; log_segment.py, spare_segment.py, log_format.py
snapshot_files.py   snapshots
generations.py      how a snapshot and its log change together
zxid_names.py       files that are named after a zxid
atomic_file.py      small files that change as a whole
filesystem.py       the calls to the system, which tests can break
storage_errors.py   what can be wrong with a folder; storage_trace_events.py what is worth a note
"""
