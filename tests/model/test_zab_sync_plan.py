"""Synchronization of every pair of logs that can occur: afterwards the two are equal.

What can occur is made by playing epochs: each leader begins with the best history of a quorum,
brings some followers to it, wholly or in part, logs transactions of its own, and some of them
reach some followers. Any server that a quorum would then prefer may synchronize any other.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from raykeeper.zab.effects import Effect, LogRun, ReadLog, Send, StreamSnapshot
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, Millis, ServerId, make_zxid
from raykeeper.zab.learners import Learners
from raykeeper.zab.messages import AckEpoch, FollowerInfo, NewLeader, Proposals, Trunc
from raykeeper.zab.recent_log import RecentLog, follows
from raykeeper.zab.settings import RecentLogLimits, Settings
from tests.harness.log_entries import Entry, entries_of, runs_of

SERVERS = tuple(ServerId(i) for i in range(1, 4))
L, F = ServerId(1), ServerId(2)


def epochs(data: st.DataObject) -> tuple[list[Entry], list[Entry], int]:
    """The logs of a leader and of a learner, and how much of the first is committed."""
    logs: dict[ServerId, list[Entry]] = {i: [] for i in SERVERS}
    current = dict.fromkeys(SERVERS, 0)
    committed = 0

    def best(quorum: list[ServerId]) -> ServerId:
        return max(quorum, key=lambda i: (current[i], logs[i][-1][0] if logs[i] else 0, i))

    def draw_quorum() -> list[ServerId]:
        return data.draw(st.sampled_from([[1, 2], [1, 3], [2, 3], [1, 2, 3]]))

    for epoch in range(1, data.draw(st.integers(2, 6))):
        quorum = draw_quorum()
        leader = best(quorum)
        initial = list(logs[leader])
        followers = [i for i in quorum if i != leader and data.draw(st.booleans())]
        for follower in followers:
            if (
                data.draw(st.integers(0, 3)) == 0
                and initial[: len(logs[follower])] == logs[follower]
            ):
                # The DIFF broke off: a part of the log, and the old epoch.
                logs[follower] = initial[
                    : data.draw(st.integers(len(logs[follower]), len(initial)))
                ]
            else:
                logs[follower], current[follower] = list(initial), epoch
        current[leader] = epoch
        established = [i for i in followers if current[i] == epoch]
        if not established:
            continue
        own = [(make_zxid(Epoch(epoch), c), b"%d.%d" % (epoch, c)) for c in range(1, 5)]
        kept = data.draw(st.integers(0, 4))
        logs[leader] = initial + own[:kept]
        reached = [data.draw(st.integers(0, kept)) for _ in established]
        for follower, count in zip(established, reached, strict=True):
            logs[follower] = initial + own[:count]
        committed = len(initial) + max(reached)
    leader = best(draw_quorum())
    learner = data.draw(st.sampled_from([i for i in SERVERS if i != leader]))
    assert committed <= len(logs[leader])
    return logs[leader], logs[learner], committed


def leader_of(log: list[Entry], base: int, committed: int, out: list[Effect]) -> Learners:
    window = RecentLog(log[base - 1][0] if base else ZERO)
    for run in runs_of(log[base:]):
        window.extend(run.first, run.txns)
    zxid = log[committed - 1][0] if committed else ZERO
    history = History(Epoch(9), Epoch(8), window, zxid, out, RecentLogLimits())
    learners = Learners(Settings(L, SERVERS), history, out)
    learners.epoch = Epoch(9)
    learners.is_synchronizing = True
    return learners


@settings(max_examples=400)
@given(st.data())
def test_the_sync_plan_makes_the_logs_equal(data: st.DataObject) -> None:
    log, behind, committed = epochs(data)
    base = data.draw(st.integers(0, committed))
    log_start = data.draw(st.integers(0, base))
    out: list[Effect] = []
    learners = leader_of(log, base, committed, out)
    learners.on_follower_info(F, FollowerInfo(Epoch(8), 1, FOUNDING_DISK), Millis(0))
    learner = learners.get(F)
    assert learner is not None
    last = behind[-1][0] if behind else ZERO
    learners.on_ack_epoch(learner, AckEpoch(Epoch(7), last, True))
    result = list(behind)
    while out:
        effect = out.pop(0)
        if isinstance(effect, ReadLog):
            runs: list[LogRun] = []
            if all(zxid <= effect.after for zxid, _ in log[:log_start]):
                runs = runs_of([e for e in log if effect.after < e[0] <= effect.upto])
            learners.log_read(learner, effect.after, runs)
        elif isinstance(effect, StreamSnapshot):
            result = log[:committed]
            learners.snapshot_begin(learner, log[committed - 1][0] if committed else ZERO)
            learners.snapshot_end(learner, log[committed - 1][0] if committed else ZERO)
        elif isinstance(effect, Send) and isinstance(effect.message, Trunc):
            assert effect.message.upto in [ZERO, *(zxid for zxid, _ in behind)]
            result = [entry for entry in result if entry[0] <= effect.message.upto]
        elif isinstance(effect, Send) and isinstance(effect.message, Proposals):
            end = result[-1][0] if result else ZERO
            assert follows(effect.message.first, end)
            result += entries_of(effect.message)
        elif isinstance(effect, Send) and isinstance(effect.message, NewLeader):
            assert effect.message.last == (log[-1][0] if log else ZERO)
    assert result == log
