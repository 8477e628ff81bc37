"""Who is to own which partition: as even as can be, with as few moves as possible.

Every member computes this alone, from the members and the present owners, and comes to the same
answer. The invariants of this file: nobody's share differs from another's by more than one; what a
member may keep it keeps; carried out, the answer is the same as before.

kazoo: `SetPartitioner`, which deals all partitions anew at each change.
"""

from collections.abc import Mapping, Sequence


def assign_partitions(
    members: Sequence[str], partitions: Sequence[str], owners: Mapping[str, str]
) -> dict[str, str]:
    """Who is to own each partition.

    Args:
        members: In the order of joining, at least one.
        partitions: All there are.
        owners: Of those that are owned now. An owner that is no member is about to go: what it owns
            is left out of the answer until it is free.
    """
    owned: dict[str, list[str]] = {member: [] for member in members}
    unowned: list[str] = []
    for partition in partitions:
        owner = owners.get(partition)
        if owner is None:
            unowned.append(partition)
        elif owner in owned:
            owned[owner].append(partition)
    least, more = divmod(len(partitions), len(members))
    # Who has most already may have the one that is left over.
    by_load = sorted(members, key=lambda member: -len(owned[member]))
    quota = {member: least + (place < more) for place, member in enumerate(by_load)}
    for member in members:
        unowned += owned[member][quota[member] :]
        del owned[member][quota[member] :]
    place_of = {partition: place for place, partition in enumerate(partitions)}
    waiting = iter(sorted(unowned, key=place_of.__getitem__))
    for member in members:
        for _ in range(quota[member] - len(owned[member])):
            partition = next(waiting, "")
            if partition:
                owned[member].append(partition)
    return {partition: member for member, share in owned.items() for partition in share}
