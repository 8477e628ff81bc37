# Back up an ensemble into a folder, then remove the backups there that are older than so many days.
#
#     sh backup.sh ENSEMBLE FOLDER DAYS
#
# If the backup fails, nothing is removed, and the exit code is that of `raykeeper backup`.
set -eu
ensemble=$1 folder=$2 days=$3
raykeeper backup "$ensemble" "$folder/$ensemble-$(date -u +%Y%m%dT%H%M%SZ).rkb"
find "$folder" -maxdepth 1 -name "$ensemble-*Z.rkb" -mtime "+$days" -delete
