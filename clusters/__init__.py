"""Ensembles in a Ray cluster: settings, launch, placement, and the handle of a running one.

config.py                        settings, their defaults and the file they come from
launch.py                        start, complete or attach an ensemble
    running_servers.py           asks the servers that run
    running_settings.py          how the running servers differ from what is asked for
    disk_choice.py               which of several disks a server starts from
    voting_disks.py              which disk of a voter counts, as the running servers know
    placement.py                 which server runs on which node: a pure decision
    starting.py                  formats folders and starts servers, as planned
    node_report.py               what a node reports
    node_discovery.py            what the nodes hold, and the formatting of folders
keeper.py                        moves servers whose nodes are lost
    healing/                     its decisions: pure
    keeper_view.py               what it sees, made of answers
    step_executor.py             asks Ray and the nodes, and acts there
    keeper_journal.py            what it writes into the tree
    keeper_status.py             what it answers, and its decisions in words
    draining.py                  has it move the servers away from a node
    stale_folders.py             folders of which another disk has the vote
recovery/                        a new history from what is left of a lost majority
ensemble.py                      the handle: connect, status, wait for a leader, shut down
ensemble_status.py               what the answers of the servers say together: pure
server_draining.py               move the clients away from a server
membership.py                    who the members are: the newest list that anybody knows
member_change.py                 changes the members: one caller with a plan, act by act
    member_steps/                its plans and its decisions: pure
    change_loop.py               looks, acts and waits until the plan is done
    members_view.py              what it sees, made of answers
    newcomers.py                 starts a server that is to join
    member_journal.py            what it writes into the tree
    members_status.py            what it tells an operator
rolling_restart.py               which server restarts next: a pure decision, and its loop
rolling_settings.py              change settings, one server after the other
mixed_settings.py                which settings may differ meanwhile
members_lock.py                  who may change the members or restart servers: one at a time
rolling_turn.py                  who may restart servers: one at a time
transfer_outcome.py              what became of a transfer of the lead
actor_calls.py                   calls of actors that may be dead or late
doctor/                          what is wrong with an ensemble
    rules/                       its judgement: pure
admin.py                         what operators are told, put together from all servers
local_ray.py, local_head.py      find Ray, start it, keep it running
"""

from raykeeper.clusters.config import ConfigError, EnsembleConfig, load_config
from raykeeper.clusters.ensemble import (
    Ensemble,
    EnsembleNotFoundError,
    NoLeaderError,
    attach,
    list_ensembles,
)
from raykeeper.clusters.ensemble_status import EnsembleStatus, ServerStatus
from raykeeper.clusters.launch import launch
from raykeeper.clusters.member_steps.vocabulary import MemberChangeError
from raykeeper.clusters.members_status import MembersStatus, MemberStatus
from raykeeper.clusters.rolling_restart import RollingRestartError
from raykeeper.clusters.rolling_settings import apply_settings
from raykeeper.clusters.running_settings import SettingsDifferError
from raykeeper.clusters.server_draining import ServerDrainError
from raykeeper.clusters.transfer_outcome import LeadershipTransferError

__all__ = [
    "launch",
    "apply_settings",
    "attach",
    "list_ensembles",
    "Ensemble",
    "EnsembleStatus",
    "ServerStatus",
    "MembersStatus",
    "MemberStatus",
    "EnsembleConfig",
    "load_config",
    "ConfigError",
    "SettingsDifferError",
    "EnsembleNotFoundError",
    "NoLeaderError",
    "LeadershipTransferError",
    "RollingRestartError",
    "ServerDrainError",
    "MemberChangeError",
]
