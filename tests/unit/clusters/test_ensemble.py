"""The handle of an ensemble."""

import pickle

from raykeeper.clusters.ensemble import Ensemble


def test_a_handle_is_its_name() -> None:
    handle = Ensemble("coord")
    again = pickle.loads(pickle.dumps(handle))
    assert (again, hash(again), repr(again)) == (handle, hash(handle), "Ensemble('coord')")
    assert handle != Ensemble("other")
    assert len(pickle.dumps(handle)) < 200
