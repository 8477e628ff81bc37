"""The contract of both clients over real servers, and of znodes that go by themselves."""

from collections.abc import Iterator
from typing import Any

import pytest
import ray

from raykeeper.client import OPEN_ACL_UNSAFE, AsyncClient, Client, make_acl, make_digest_acl
from raykeeper.clusters import Ensemble, launch
from tests.contract.client_handles import SUPER, Awaited, Open, finish
from tests.contract.test_clients import *  # noqa: F403  (the suite itself, collected again here)
from tests.ray.conftest import all_serve, eventually, new_name


def open_blocking(ensemble: Ensemble) -> Open:
    """What opens a `Client`."""
    return lambda chroot="", **options: ensemble.connect(chroot=chroot, **options)


def open_awaited(ensemble: Ensemble) -> Open:
    """What opens an `AsyncClient`."""

    def open_one(chroot: str = "", **options: Any) -> Awaited:
        return Awaited(finish(AsyncClient.connect(ensemble.name + chroot, **options)))

    return open_one


@pytest.fixture(scope="module", params=["direct", "ray"])
def shared(
    request: pytest.FixtureRequest, ray_session: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ensemble]:
    """An ensemble with a super user, over either carrier."""
    root = make_digest_acl(*SUPER.split(":")).id  # type: ignore[arg-type]
    data_dir = tmp_path_factory.mktemp("data")
    ensemble = launch(
        name=new_name(),
        data_dir=data_dir,
        super_ids=[f"digest:{root}"],
        container_grace_s=0.1,
        links=request.param,
    )
    eventually(lambda: all_serve(ensemble))
    yield ensemble
    ensemble.shutdown()


@pytest.fixture(params=[open_blocking, open_awaited])
def opener(request: pytest.FixtureRequest, shared: Ensemble) -> Open:
    """What opens a client of either kind."""
    opener: Open = request.param(shared)
    return opener


def test_containers_and_expired_znodes_are_deleted(client: Any, top: str) -> None:
    client.create(f"{top}/container", container=True)
    client.create(f"{top}/container/a")
    client.create(f"{top}/never-used", container=True)
    client.create(f"{top}/ttl", ttl_s=0.2)
    client.delete(f"{top}/container/a")
    eventually(lambda: client.get_children(top) == ["never-used"])


def test_a_pickled_handle_keeps_its_root_and_its_acl(shared: Ensemble) -> None:
    acl = [make_acl("world", "anyone", read=True, create=True)]
    with (
        shared.connect() as whole,
        shared.connect(chroot="/passed", default_acl=acl) as client,
        shared.connect(chroot="/passed", client_id=client.client_id) as heir,
    ):
        heir.ensure_path("/")

        def use(client: Client, path: str) -> tuple[str, int]:
            return client.create(path, makepath=True), client.session_id

        task: Any = ray.remote(num_cpus=0)(use)
        first, second = ray.get([task.remote(client, "/a/b"), task.remote(heir, "/c")])
        assert (first[0], second[0]) == ("/a/b", "/c")
        assert len({heir.session_id, first[1], second[1]}) == 3, "each has a session of its own"
        whole.sync()
        assert whole.get_acls("/passed/a")[0] == acl
        assert whole.get_acls("/passed/c")[0] == list(OPEN_ACL_UNSAFE)
