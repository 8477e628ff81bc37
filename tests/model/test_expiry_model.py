"""Expiry against a naive tracker that looks at every session each time."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.expiry import SessionExpiry, SessionReport, TouchedSession
from raykeeper.znodes.requests import SessionId

GAP_MS = 50
session_ids = st.integers(1, 4)
steps = st.tuples(
    st.integers(0, 70),  # since the step before; above GAP_MS this process was held up
    st.lists(st.tuples(session_ids, st.integers(1, 90)), max_size=3),
    st.lists(session_ids, max_size=1),
    st.sampled_from(["changes", "nothing", "nothing", "full", "repeated", "of an older epoch"]),
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
    assert expiry.track(SessionReport(Epoch(2), batch, True, [], []), Millis(now)) == []
    for wait, touched, ended, kind in history:
        now += wait
        if wait > GAP_MS:
            for session in naive.values():
                session.due += wait
        is_late = kind in ("repeated", "of an older epoch")
        batch += not is_late
        report = SessionReport(
            Epoch(1 if kind == "of an older epoch" else 2),
            batch,
            kind == "full",
            [TouchedSession(SessionId(s), Zxid(1), Millis(t)) for s, t in touched],
            [SessionId(s) for s in ended],
        )
        if kind == "nothing":
            report = replace(report, touched=[], ended=[])
        proposals = expiry.track(report, Millis(now))
        if is_late:
            assert proposals is None
            continue
        if kind == "full":
            naive.clear()
        for touch in report.touched:
            naive[touch.session_id] = Naive(now + touch.timeout_ms, batch)
        for session_id in report.ended:
            naive.pop(session_id, None)
        overdue = [s for s in naive if naive[s].due <= now and not naive[s].judged]
        expected = [(s, naive[s].batch) for s in sorted(overdue)]
        assert proposals is not None
        assert sorted((v.session_id, v.batch) for v in proposals) == expected
        assert [naive[v.session_id].due for v in proposals] == sorted(naive[s].due for s in overdue)
        for s in overdue:
            naive[s].judged = True
