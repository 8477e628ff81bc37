"""The recipes, one file each, and their shared base.

Shared by all
    recipe.py               the base of recipes; an operation, written once for both clients
    primitives.py           steps of many recipes: create with parents, read or None, delete
    compare_and_set.py      compare and set, in one request
    background_recipe.py    a flow that runs until the recipe is closed
    value_types.py          values of a user's type as bytes, and back
    round_trip.py           what a format would change of a value
    unknown_fields.py       fields that a user's type does not know stay in the value
    acquirable.py           everything held: its fencing token, its loss, `with` blocks
Locks
    lock.py                 the fair lock, and the queue of its contenders
    simple_lock.py          one znode, for which all contenders rush at once
    read_write_lock.py      readers share the lock, a writer has it alone
    reentrant_lock.py       its holder may acquire it again
    multi_lock.py           several locks as one
    semaphore.py            a limited number of permits
    lease.py                a lock for a bounded time
Elections and groups
    election.py             the numbered terms of one leader after another
    leader_latch.py         a candidate in the background
    group.py                the present members
    services.py             instances of services, and a cache of them
    picking.py              how a client picks an instance
    rendezvous.py           a fixed number meets, and each gets the same list
    partitioner.py          a set of partitions, divided among its members
Configuration, caches and counters
    configuration.py        a value of a type, with a version
    multi_configuration.py  several of them, changed as one
    publication.py          a configuration of many znodes, of which no reader sees a part
    znode_follower.py       the follower of znodes, under configurations and publications
    live.py                 the newest state of followed znodes, and callbacks
    tree_cache.py           a subtree, or the children of a znode, as a local copy
    subtree_follower.py     the follower of a subtree, under caches, groups and services
    tree_mirror.py          the copy of a subtree that other threads read
    counter.py              a shared integer
Barriers, queues, agreements
    barrier.py              wait until the barrier is removed
    double_barrier.py       enter together, and leave together
    queue.py                first in, first out; with priorities, the lowest number first
    lock_queue.py           elements are locked first, and removed later
    two_phase_commit.py     all of several sites commit, or none
"""
