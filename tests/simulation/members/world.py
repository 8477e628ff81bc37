"""A world in which an operator changes the members all the time.

The operator is any client with the right to it. Its steps are random, some of them wrong; the
checks of every world judge what becomes of them (checks/members.py).
"""

from functools import partial

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import FOUNDING_DISK, Millis, ServerId, epoch_of
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.requests import ANY_VERSION, AddAuth, Reconfig, SessionId
from tests.harness.schedule import Trace
from tests.simulation.checks.members import newcomer_has_kept_up
from tests.simulation.checks.truth import CONFIG
from tests.simulation.client import SimClient
from tests.simulation.faults import Faults
from tests.simulation.members.damage import SeatDamage
from tests.simulation.members.faults import MemberFaults
from tests.simulation.members.lost_in_a_step import LostInAStep
from tests.simulation.members.possible_lists import LoggedList, PossibleLists
from tests.simulation.node import PROMOTION_LAG_MAX, Node
from tests.simulation.plan import Plan
from tests.simulation.requests.acls import SUPER
from tests.simulation.world import World

_ASKS_SHARE = 0.3
"""How many starts of a member are by an operator, who looks for the newest list."""
_EMPTY_SHARE = 0.3
"""How many of the servers that are to join have an empty disk."""
_FEW, _GROWS_SHARE = 2, 0.8
"""With so few voters, fewer of the random steps take one away."""
_GOES_ON_SHARE, _BEHIND_SHARE = 0.9, 0.3
"""How often a client that is told of a step asks for the next one, and asks before it is told."""
_EASY_SHARE = 0.7
_HEARTBEAT_MS = 3_000
"""Within which a client sends a heartbeat and has its answer: a third of its session timeout."""
_STOP_SHARE, _STOP_SHARE_AT_ONCE = 0.3, 0.6
"""How often, when it acts, the operator stops a server that has left."""
_SWAP_SHARE = 0.97
_TOWARDS_SHARE = 0.8
"""How many steps lead to the number of voters that is wanted, if one is."""


class MembersWorld(World):
    """The general world, with members that change."""

    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        super().__init__(plan, trace)
        self._random = self.schedule.stream("operator")
        self._learning = self.schedule.stream("learning")
        self._rows = self.schedule.stream("rows")
        self._starting = self.schedule.stream("starting")
        self._list_at_start: dict[Node, MemberList | None] = {}
        self._proven: dict[SessionId, None] = {}
        self._reached = 0  # of the numbers of voters that are wanted
        self._is_finishing = False
        self._stopped: dict[Node, None] = {}
        for node in self.nodes:
            node.are_others_strangers = node.list.decides_links = True
            node.list.known = partial(self._known_at_start, node)
            node.may_start = lambda node=node: node not in self._stopped  # type: ignore[misc]
        for client in self.clients:
            client.servers_at_start = self._servers_at_start
            if plan.members is not None and plan.members.in_a_row:
                client.after_answer = partial(self._told, client)
        self._plan_step()

    def _servers_at_start(self) -> list[ServerId]:
        """The servers that a process finds when it begins, which may all be gone later."""
        members = self.checks.truth.members
        if members is None or self._learning.random() < 0.3:
            return [*self.nodes[0].voters]
        return sorted([*members.voters, *members.observers])

    def _known_at_start(self, node: Node) -> MemberList | None:
        """Return the newest list, or that of an earlier start.

        Ray restarts a process with the settings of its launch. With the newest list alone no log
        would ever have to say that a step is committed.
        """
        if not node.list.was_member or self._starting.random() < _ASKS_SHARE:
            self._list_at_start[node] = self.checks.truth.members
        return self._list_at_start.get(node)

    def _new_faults(self) -> Faults:
        assert self.plan.members is not None
        founders = {
            ServerId(each.server_id): FOUNDING_DISK for each in self.plan.servers if each.is_voter
        }
        self.lists = PossibleLists(self.checks.truth, self.nodes, founders)
        self.damage = SeatDamage(self.nodes, self.lists)
        self.checks.on_append = self._appended
        parts = self.schedule, self.network, self.nodes, self.clients
        self._member_faults = MemberFaults(*parts, self.damage, self.lists)
        return self._member_faults

    def _appended(self, effect: Append) -> None:
        known, newest = self.lists.change, self.lists.newest
        self.lists.appended(effect)
        if self.lists.newest is not newest:
            # As early as may be: what says the list again is not on a disk yet.
            self.schedule.after(0, partial(self._newest_logged, self.lists.newest))
        before, after = self.lists.change
        if any(node.server_id in after for node in self._stopped):
            # It was asked for before it was stopped.
            self.schedule.after(0, self._take_back_voters)
        if self.lists.change is known or self.lists.newest is None:
            return
        zxid = self.lists.newest.zxid
        prepared_before = zxid - effect.first + 1
        for node in self.nodes:
            is_new = not node.votes and node.server_id in after and node.server_id not in before
            if is_new and node.disk.disk == after[node.server_id]:
                lag_max = prepared_before + PROMOTION_LAG_MAX
                newcomer_has_kept_up(node.server_id, node.disk, zxid, lag_max)

    def _newest_logged(self, logged: LoggedList | None) -> None:
        truth = self.checks.truth
        assert logged is not None
        if not logged.is_repeated and truth.members is not None:
            # A leader of an earlier epoch does not know what was committed meanwhile.
            knows_all = epoch_of(logged.zxid) >= epoch_of(truth.zxid)
            is_alone = truth.times_said > 1 or logged.zxid <= truth.zxid or not knows_all
            assert is_alone, f"Membership: two changes are open: {logged} is proposed"
        self._stop_one(_STOP_SHARE_AT_ONCE)

    # The operator.

    def _plan_step(self) -> None:
        assert self.plan.members is not None
        pause_ms = self._random.randint(1, 2 * self.plan.members.pause_ms)
        self.schedule.after(pause_ms, self._act)

    def _act(self) -> None:
        if self.schedule.now >= self.plan.safety_ms and not self._is_finishing:
            return
        self._plan_step()
        self._stop_one(_STOP_SHARE)
        op = self._step()
        if not self.damage.is_borne(op):
            return
        if self._random.random() < 0.5:
            self._ask_a_server(op)
        elif (client := self.operator()) is not None:
            self.ask(client, op)
            if self.plan.members.in_a_row and self._rows.random() < _BEHIND_SHARE:
                self._ask_next(client, client.life)

    def _told(self, client: SimClient, ask: NewRequest) -> None:
        """Have a client that was told what became of its step ask for the next one at once."""
        if isinstance(ask, Reconfig) and self._rows.random() < _GOES_ON_SHARE:
            self.schedule.after(0, partial(self._ask_next, client, client.life))

    def _ask_next(self, client: SimClient, life: int) -> None:
        is_over = self.schedule.now >= self.plan.safety_ms
        if not is_over and client.life == life and self._can_ask(client):
            op = self._easy_step() if self._rows.random() < _EASY_SHARE else self._step()
            if self.damage.is_borne(op):
                self.ask(client, op)
                self.checks.counts["in_a_row"] += 1

    def _easy_step(self) -> Reconfig:
        """Return a step that a leader grants at once: an observer more or less."""
        voters, observers, strangers = self._parts()
        joins = bool(strangers) and (not observers or self._rows.random() < 0.5)
        if joins or not observers:
            return Reconfig(self._rows.choice(strangers or voters), 0, True, ANY_VERSION)
        return Reconfig(0, self._rows.choice(observers), False, ANY_VERSION)

    def _ask_a_server(self, op: Reconfig) -> None:
        """Ask the leader, or another server, as an operator does."""
        running = [node for node in self.nodes if node.server is not None]
        leaders = [node for node in running if node.server and node.server.peer.broadcasting]
        self._start_to_join(op)
        if running:
            able = leaders if leaders and self._random.random() < 0.8 else running
            self._random.choice(able).reconfig(op)
            self.checks.counts["steps"] += 1

    def operator(self) -> SimClient | None:
        """Return a client that can ask for a step now."""
        able = [each for each in self.clients if self._can_ask(each)]
        return self._random.choice(able) if able else None

    def ask(self, client: SimClient, op: Reconfig) -> None:
        """Have a client request a step."""
        assert client.core is not None
        session = client.core.client_id.session_id
        if session not in self._proven:
            self._proven[session] = None
            client._submit(AddAuth("digest", SUPER))
        self._joins(op)
        client._submit(op)
        self.lists.asks(self.checks.clients.view_of(client), op)
        self.checks.counts["steps"] += 1
        self.checks.counts["steps_of_jute"] += client.speaks_jute
        client.core.flush(client.clock.mono())
        client._carry_out()

    def _joins(self, op: Reconfig) -> None:
        self._start_to_join(op)
        joining = [node for node in self.nodes if node.server_id == op.joining and not node.votes]
        for node in joining:
            is_stranger = op.as_observer and node.is_up and self.damage.may_lose(node)
            if is_stranger and not self._is_finishing and self._random.random() < _EMPTY_SHARE:
                node.crash()
                node.disk.repair()
                node.start()
                self.checks.counts["joins_empty"] += 1
            self._member_faults.joins(node)

    def _start_to_join(self, op: Reconfig) -> None:
        """Start the server that is to join if it was stopped for good."""
        stopped = [node for node in self._stopped if node.server_id == op.joining]
        # Not to bring a lost majority back: it is no member any more.
        if any(each.server and each.server.peer.broadcasting for each in self.nodes):
            self._take_back(stopped)

    def _take_back_voters(self) -> None:
        _, after = self.lists.change
        self._take_back([node for node in self._stopped if node.server_id in after])

    def _take_back(self, stopped: list[Node]) -> None:
        for node in stopped:
            del self._stopped[node]
            self._list_at_start[node] = self.checks.truth.members
            node.start()

    def _stop_one(self, share: float) -> None:
        """Sometimes stop a server that has left for good, or until it is asked to join again."""
        if self._random.random() >= share or self.schedule.now >= self.plan.safety_ms:
            return
        left = [node for node in self.nodes if node not in self._stopped and self._has_left(node)]
        if left:
            node = self._random.choice(left)
            self._stopped[node] = None
            self.schedule.say(f"server {node.server_id} has left, and stops for good")
            self.checks.counts["stopped"] += 1
            if node.is_up:
                node.crash()

    def _has_left(self, node: Node) -> bool:
        """Return whether a command would end this server, by the leader's word, and no list has it.

        As clusters/member_steps/next_act.py: a server that is no member ends when no step is open
        (M4). A step may still be on its way here, since there are several operators.
        """
        members = self.checks.truth.members
        if members is None or node.server_id in members.observers or not self._is_step_over():
            return False
        found = self.lists.possible(with_former=False)
        return found is not None and not any(node.server_id in voters for voters in found)

    def _is_step_over(self) -> bool:
        """Return whether a leader says that the step to the newest list is over."""
        leaders = [n.server for n in self.nodes if n.server and n.server.peer.broadcasting]
        members = self.checks.truth.members
        return any(
            leader.peer.settings.members.delivered == members and not leader.open_change
            for leader in leaders
        )

    def in_use(self) -> list[Node]:
        """Return the servers that have not been stopped for good."""
        return [node for node in self.nodes if node not in self._stopped]

    def _can_ask(self, client: SimClient) -> bool:
        is_there = client.is_connected and not client.is_frozen and not client.refuses_writes
        return is_there and (client.is_working or self._is_finishing)

    def _step(self) -> Reconfig:
        wanted = self._towards()
        if wanted is not None and self._random.random() < _TOWARDS_SHARE:
            return wanted
        random, truth = self._random, self.checks.truth
        every = [int(node.server_id) for node in self.nodes]
        voters, observers, strangers = self._parts()
        if self.plan.members.swaps and random.random() < _SWAP_SHARE:  # type: ignore[union-attr]
            if observers:
                return Reconfig(random.choice(observers), random.choice(voters), False, ANY_VERSION)
            if strangers:
                return Reconfig(random.choice(strangers), 0, True, ANY_VERSION)
        kind = random.random()
        if len(voters) <= _FEW and (observers or strangers):
            kind *= _GROWS_SHARE  # else most worlds end with a single voter
        version = random.choice([ANY_VERSION, ANY_VERSION, truth.znodes[CONFIG].mzxid])
        if kind < 0.1:
            return Reconfig(random.choice(every), random.choice(every), random.random() < 0.5, 7)
        if kind < 0.35 and strangers:
            return Reconfig(random.choice(strangers), 0, True, version)
        if kind < 0.6 and observers:
            return Reconfig(random.choice(observers), 0, False, version)
        if kind < 0.75 and observers:
            return Reconfig(random.choice(observers), random.choice(voters), False, version)
        if kind < 0.85:
            return Reconfig(random.choice(voters), 0, True, version)
        return Reconfig(0, random.choice(voters + observers), False, version)

    def _parts(self) -> tuple[list[int], list[int], list[int]]:
        """Return the voters, the observers and the other servers."""
        truth = self.checks.truth
        voters = [int(node.server_id) for node in self.nodes if node.votes]
        observers = [] if truth.members is None else [int(each) for each in truth.members.observers]
        every = [int(node.server_id) for node in self.nodes]
        return voters, observers, [each for each in every if each not in voters + observers]

    def _towards(self) -> Reconfig | None:
        """Return a step to the number of voters that is wanted next; None if none is."""
        assert self.plan.members is not None
        sizes = self.plan.members.sizes
        voters, observers, strangers = self._parts()
        while self._reached < len(sizes) and sizes[self._reached] == len(voters):
            self._reached += 1
        if self._reached == len(sizes):
            return None
        if sizes[self._reached] < len(voters):
            return Reconfig(0, self._random.choice(voters), False, ANY_VERSION)
        if observers and (not strangers or self._random.random() < 0.7):
            return Reconfig(self._random.choice(observers), 0, False, ANY_VERSION)
        return Reconfig(self._random.choice(strangers), 0, True, ANY_VERSION)

    # The end.

    def _finish_work(self) -> None:
        assert self.plan.members is not None
        if not self.plan.members.sizes:
            return
        self._is_finishing = True
        self._plan_step()
        bound_ms = 3 * self.plan.timing.converge_ms
        done = self.schedule.run_until(
            Millis(self.schedule.now + bound_ms), lambda: self._towards() is None
        )
        assert done, f"Progress: of {self.plan.members.sizes} voters {self._reached} were reached"
        self._is_finishing = False
        self.checks.counts["all_sizes"] += 1

    def _look_around(self) -> None:
        """Check that in the end all have the member list, the servers twice."""
        truth = self.checks.truth
        assert truth.members is None or truth.times_said > 1, "Membership: it is said only once"
        self.checks.counts["lists"] = truth.lists
        for node in self.in_use():
            node.reconfigs.all_answered(node.server_id)
            assert node.server is not None
            delivered = node.server.peer.settings.members.delivered
            assert truth.members in (None, delivered), f"Membership: {node.server_id} {delivered}"
        natives = [client for client in self.clients if not client.speaks_jute]
        # An idle client is told with its next heartbeat.
        self.schedule.run_until(
            Millis(self.schedule.now + _HEARTBEAT_MS), lambda: all(map(self._knows_list, natives))
        )
        for client in natives:
            known = client.core and client.core.members
            assert self._knows_list(client), f"Membership: {client.name} knows {known}"
        for name in ("learned", "listed"):
            self.checks.counts[name] = sum(each.log.counts[f"servers.{name}"] for each in natives)

    def _knows_list(self, client: SimClient) -> bool:
        members = self.checks.truth.members
        return members is None or (client.core is not None and client.core.members == members)

    def _lose_majority(self) -> None:
        self._is_finishing = True  # the operator may ask once more, of this alone
        lost = LostInAStep(self)
        if not lost.begins():
            return
        lost.lose()
        lost.nobody_decides()
        lost.bring_back()
        self._converge()
        self._settle(self.schedule.now)
        self._look_around()

    def possible_step(self) -> Reconfig | None:
        """Return a step that changes the voters and that a leader may grant now."""
        voters, observers, _ = self._parts()
        leaders = [int(n.server_id) for n in self.nodes if n.server and n.server.peer.broadcasting]
        others = [each for each in voters if each not in leaders]
        steps = [Reconfig(joining, 0, False, ANY_VERSION) for joining in observers]
        steps += [Reconfig(0, leaving, False, ANY_VERSION) for leaving in others]
        steps += [
            Reconfig(joining, leaving, False, ANY_VERSION)
            for joining in observers
            for leaving in others
        ]
        return self._random.choice(steps) if steps else None

    def nodes_of(self, servers: "list[ServerId]") -> list[Node]:
        """Return the nodes of these servers."""
        return [node for node in self.nodes if node.server_id in servers]
