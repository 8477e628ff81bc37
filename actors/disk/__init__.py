"""The durable store of a replica.

opening.py                 opens a store: creates what is missing, repairs what is corrupt
storage.py                 the store as others see it: open, recover, perform effects, close
disk_thread.py             a thread that performs all waiting effects at once (group commit)
identity.py                the owner of a folder; folder_lock.py its lock
repair.py                  a corrupt disk starts again
epochs.py                  the two promises
log.py                     the log; log_segment.py, spare_segment.py, log_format.py its parts
snapshot_files.py          snapshots
folder_reader.py           the folder for tools that change nothing; log_reader.py its log
generations.py             how a snapshot and its log change together
file_operations.py         replacing, reading, removing and naming files
filesystem.py              the system calls, which tests can break
members_file.py            the member list, for those who start servers
storage_errors.py          the errors of a folder
storage_trace_events.py    the names of its trace events
"""
