"""The usage lines of the commands of `raykeeper shell`, for its messages and for completion."""

from typing import Final

USAGE: Final = {
    "ls": "ls [PATH]                        names of the children",
    "get": "get PATH                         the value",
    "stat": "stat PATH                        the eleven fields of the Stat",
    "set": "set PATH VALUE [VERSION]         replace the value, if it is at that version",
    "create": "create [-e] [-s] [-p] PATH [VALUE]   -e ephemeral, -s sequential, -p with parents",
    "delete": "delete [-r] PATH [VERSION]       -r with everything below it",
    "watch": "watch PATH                       tell changes of the znode and of its children",
}
