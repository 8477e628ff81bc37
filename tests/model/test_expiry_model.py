"""Expiry against a naive tracker that looks at every session each time."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.expiry import SessionExpiry, SessionReport, TouchedSession
from raykeeper.znodes.requests import SessionId

GAP_MS = 50
session_ids = st.integers(1, 4)
steps = st.tuples(
    st.integers(0, 70),  # since the step before; above GAP_MS this process was held up
    st.lists(st.tuples(session_ids, st.integers(1, 90)), max_size=3),
    st.lists(session_ids, max_size=1),
    st.sampled_from(["asks", "asks", "reports", "reports", "full"]),
)


@dataclass
class Naive:
    due: int
    batch: int
    judged: bool = False


@settings(max_examples=300)
@given(st.lists(steps, max_size=40))
def test_expiry_equals_a_tracker_that_scans_all_sessions(
    history: list[tuple[int, list[tuple[int, int]], list[int], str]],
) -> None:
    expiry, naive = SessionExpiry(clock_gap_ms=GAP_MS), dict[int, Naive]()
    now, batch = 0, 1
    expiry.report(SessionReport(Epoch(1), batch, True, [], []), Millis(now))
    for wait, touched, ended, kind in history:
        now += wait
        if wait > GAP_MS:
            for session in naive.values():
                session.due += wait
        if kind == "asks":
            overdue = [s for s in naive if naive[s].due <= now and not naive[s].judged]
            expected = [(s, naive[s].batch) for s in sorted(overdue, key=lambda s: naive[s].due)]
            proposals = expiry.proposals(Millis(now))
            assert sorted((v.session_id, v.batch) for v in proposals) == sorted(expected)
            assert [naive[v.session_id].due for v in proposals] == sorted(
                naive[s].due for s in overdue
            )
            for s in overdue:
                naive[s].judged = True
        else:
            batch += 1
            if kind == "full":
                naive.clear()
            for s, timeout_ms in touched:
                naive[s] = Naive(now + timeout_ms, batch)
            for s in ended:
                naive.pop(s, None)
            expiry.report(
                SessionReport(
                    Epoch(1),
                    batch,
                    kind == "full",
                    [TouchedSession(SessionId(s), Zxid(1), Millis(t)) for s, t in touched],
                    [SessionId(s) for s in ended],
                ),
                Millis(now),
            )
        waiting = [session.due for session in naive.values() if not session.judged]
        assert expiry.deadline() == (min(waiting) if waiting else None)
