"""The failures of Figure 8 in the order of the paper."""

from raykeeper.bench.experiments.failures import FailureTarget, plan_of


def test_each_victim_returns_before_the_next_one_fails() -> None:
    plan = plan_of(110.0)
    assert [moment.at_s for moment in plan] == [10.0 * (i + 1) for i in range(10)]
    assert [(moment.target, moment.is_return) for moment in plan] == [
        (victim, is_return) for victim in FailureTarget for is_return in (False, True)
    ]


def test_the_order_is_that_of_the_paper() -> None:
    failures = [moment.label for moment in plan_of(1.0) if not moment.is_return]
    assert failures == [
        "a follower fails",
        "another follower fails",
        "the leader fails",
        "two followers fails",
        "the leader again fails",
    ]
