"""The recipes, one file each, and what they share.

What all share
    recipe.py       what a recipe is; an operation, written once for both clients
    primitives.py        steps that many take: create with parents, look, delete, leave
    compare_and_set.py    compare and set, in one request
    background_recipe.py   what goes on until it is closed
    acquirable.py      what is held: its fencing token, its loss, `with` blocks
Locks
    lock.py         the fair lock, and the queue of its contenders
    simple_lock.py, read_write_lock.py   one znode and a herd; readers beside each other
    reentrant_lock.py, multi_lock.py     acquired again by its holder; several as one
    semaphore.py, lease.py               so many at once; for a bounded time
Elections and groups
    election.py, leader_latch.py         who leads, numbered; a candidate in the background
    group.py        the members that are there
    services.py     instances of services, and a cache of them
        picking.py      which of them
    rendezvous.py   so many meet, and each gets the same list
    partitioner.py  a set of partitions, divided among its members
Configuration, caches and counters
    configuration.py, multi_configuration.py  a value of a type, with a version; several as one
    publication.py    a configuration of many znodes of which nobody sees a part
        znode_follower.py, live.py   the follower of znodes; their newest state, and callbacks
    tree_cache.py   a subtree, or the children of a znode, as a local copy
        subtree_follower.py, tree_mirror.py   the follower of a subtree, also of groups, services
                                              and partitioners; what others read meanwhile
    counter.py      a shared integer
Barriers, queues, agreements
    barrier.py, double_barrier.py        until somebody removes it; in and out together
    queue.py        first in, first out; with priorities, the lowest number first
    lock_queue.py   elements are locked first, removed later
    two_phase_commit.py                  all of several sites, or none
"""
