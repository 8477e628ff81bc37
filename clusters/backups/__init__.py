"""Backups: taken while an ensemble runs, archived as its log grows, and restored as another one.

backup.py            take one
    server_choice.py     which server is read, and up to where
    source.py            its files, through an actor beside it (actors/backup_reader.py)
    pace.py              how fast it is read
    backup_format.py     the bytes of a backup: pure
    places.py            paths and URLs
follow.py            archive the log as it grows
    house_keeping.py     what an archive needs besides the log
    archive_writer.py    adds to an archive
    archive.py           its files
catalog.py           what backups are in a place, from their manifests
restore.py           found an ensemble with the state of another one
    loading.py           that state, as of a zxid or a time, checked
    staging.py           its way to the nodes
"""

from raykeeper.clusters.backups.backup import BackupError, BackupProgress, BackupReport
from raykeeper.clusters.backups.backup_format import BackupFormatError
from raykeeper.clusters.backups.follow import FollowEvent, follow
from raykeeper.clusters.backups.house_keeping import FollowSettings
from raykeeper.clusters.backups.loading import RestorePointError
from raykeeper.clusters.backups.places import BackupPlaceError
from raykeeper.clusters.backups.restore import RestoreRefusedError, RestoreReport, restore

__all__ = [
    "restore",
    "RestoreReport",
    "follow",
    "FollowSettings",
    "FollowEvent",
    "BackupReport",
    "BackupProgress",
    "BackupError",
    "BackupPlaceError",
    "BackupFormatError",
    "RestoreRefusedError",
    "RestorePointError",
]
