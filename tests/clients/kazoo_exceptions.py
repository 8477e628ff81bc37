"""What of kazoo's own tests is not run here, and what must fail, each with the reason."""

from typing import Final

_NO_SERVER: Final = "asks no server"
OTHER_FILES: Final = {
    "test_build": "compares the server's version with that of a build of ZooKeeper",
    "test_eventlet_handler": "the tests of other files once more, over eventlet",
    "test_exceptions": _NO_SERVER,
    "test_gevent_handler": "the tests of other files once more, over gevent",
    "test_hosts": _NO_SERVER,
    "test_paths": _NO_SERVER,
    "test_retry": _NO_SERVER,
    "test_sasl": "SASL is not offered",
    "test_security": _NO_SERVER,
    "test_selectors_select": _NO_SERVER,
    "test_threading_handler": _NO_SERVER,
    "test_utils": _NO_SERVER,
}
"""Files that are not run."""

_ONE_SERVER: Final = "stops servers of three: the test has one, which stays"
NOT_RUN: Final = {
    "test_client::TestClient::test_request_queuing_session_expired": _ONE_SERVER,
    "test_client::TestClient::test_request_queuing_session_recovered": _ONE_SERVER,
    "test_client::TestClient::test_update_host_list": _ONE_SERVER,
    "test_connection::TestConnectionDrop::test_connection_dropped": (
        "expects that a write of 1 MB is not answered before kazoo drops its connection, and fails "
        "in 4 of 52 runs here and in 4 of 122 with ZooKeeper"
    ),
    "test_connection::TestReadOnlyMode::test_read_only": _ONE_SERVER,
    "test_lock::KazooLockTests::test_lock": (
        "waits for ever if the next contender has the lock before the test has seen that nobody "
        "has it, in 4 of 847 runs here and in 4 of 1338 with ZooKeeper"
    ),
    "test_lock::KazooLockTests::test_lock_many_threads": (
        "its barrier lets nobody pass any more once the first thread has had the lock and left: "
        "seen in 1 of 48 runs with ZooKeeper on a busy machine"
    ),
}
"""Tests that are not run."""

NOT_OFFERED: Final = {
    "test_client::TestReconfig::test_add_remove_observer": (
        "adds a server that nobody has started, and reads in the list the address that it gave"
    ),
}
"""Tests that must fail: one that passes does not belong here any longer."""
