"""The recipes, one file each, and what they share.

recipe.py       what a recipe is; an operation, written once for both clients
steps.py        steps that many take: create with parents, look, delete, leave
holding.py      what is held: its fencing token, its loss, `with` blocks
background.py   what goes on until it is closed
lock.py         the fair lock, and the queue of its contenders
simple_lock.py, read_write_lock.py   one znode and a herd; readers beside each other
semaphore.py, lease.py               so many at once; for a bounded time
reentrant_lock.py, multi_lock.py     acquired again by its holder; several as one
replacing.py    compare and set, in one request
two_phase_commit.py   all of several sites, or none
elements.py     elements of queues, their order and number; who waits for them
queue.py, priority_queue.py   first in, first out; lowest number first
lock_queue.py   elements are locked first, removed later
barrier.py, double_barrier.py   until somebody removes it; in and out together
turns.py        operations that call a function of the user's between two flows
sight.py        one znode, watched for good: each of its states
live.py         what is followed: its newest state, and a callback for each change
configuration.py   a value of a type, with a version
copied_tree.py  a copy of a part of the tree, which others read while it is changed
subtree.py      how it is kept current
tree_cache.py   a subtree, or the children of a znode, as a local copy
configurations.py  several of them, changed as one
published.py    a configuration of many znodes of which nobody sees a part
counter.py      a shared integer
election.py     who leads, numbered; who wants to know
leader_latch.py a candidate in the background
followed.py     a part of the tree, kept current
group.py        who is there
services.py     instances of services, and a cache of them
picking.py      which of them
rendezvous.py   so many meet, and each gets the same list
partitioner.py  a set of partitions, divided among its members
shares.py       who is to own which of them
"""
