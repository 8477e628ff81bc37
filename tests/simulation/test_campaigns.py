"""Campaigns bring about the situations for which they are made."""

from collections import Counter
from itertools import count, islice

import pytest

from raykeeper.server.leader_session_tracker import LeaderSessionTracker
from raykeeper.znodes.expiry import ExpiryProposal
from tests.simulation import campaigns
from tests.simulation.campaigns import draw_campaign, lead_again
from tests.simulation.world import World


def test_a_leader_that_leads_again_is_told_of_sessions_that_were_overdue_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some of them it has not heard since: only the epoch of the proposal tells them apart."""
    seen: Counter[bool] = Counter()
    right = LeaderSessionTracker.on_expiry_proposals

    def takes(self: LeaderSessionTracker, proposals: list[ExpiryProposal]) -> None:
        for proposal in proposals:
            session_id = proposal.session_id
            is_same = (
                self.prep.owner_zxid_of(session_id) == proposal.owner_zxid
                and self._last_touch_report.get(session_id) == proposal.batch
            )
            seen[is_same] += proposal.epoch < self.epoch
        right(self, proposals)

    monkeypatch.setattr(LeaderSessionTracker, "on_expiry_proposals", takes)
    monkeypatch.setattr(campaigns, "SHARES", {lead_again: 1.0})
    for plan in filter(None, islice(map(draw_campaign, count()), 8)):
        World(plan).run()
    assert seen[True] > 2 and seen[False] > 2
