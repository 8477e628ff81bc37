"""A lost majority: what is left is told, and becomes a new history that goes on."""

import json
import shutil
from pathlib import Path

from raykeeper.actors.disk.identity import DiskIdentity, read_identity
from raykeeper.client import make_scrypt_acl
from raykeeper.clusters.node_discovery import SUPERSEDED_MARK
from raykeeper.zab.ids import epoch_of
from tests.ray.conftest import Launch, Run, all_serve, eventually


def identity_of(folder: Path) -> DiskIdentity:
    identity = read_identity(folder)
    assert identity is not None
    return identity


def test_a_lost_majority_is_recovered(launch_one: Launch, run: Run, tmp_path: Path) -> None:
    settings = {"session_timeout_max_s": 1.0}
    ensemble = launch_one(**settings)
    words = ("recover", ensemble.name, "--data-dir", str(tmp_path / "data"))
    eventually(lambda: all_serve(ensemble))
    with ensemble.connect() as client:
        client.create("/kept", b"value")
        bob = make_scrypt_acl(client.ensemble_uuid, "bob", "secret", read=True)
        client.create("/bobs", b"of bob", acl=[bob])
        held = client.lock("/lock").acquire()
        client.create("/gone", b"", ephemeral=True)
    code, _, error = run(*words)
    assert code == 1 and f"raykeeper down {ensemble.name}" in error
    ensemble.shutdown()
    code, _, error = run(*words, "--accept-data-loss")
    assert code == 1 and "a majority of the disks is there" in error

    home = tmp_path / "data" / ensemble.name
    old = identity_of(home / "1")
    shutil.move(home / "2", tmp_path / "away")
    shutil.rmtree(home / "3")
    code, out, _ = run(*words)
    assert code == 4 and "1 of 3 votes are there" in out and "may be lost" in out
    settings_file = tmp_path / "settings.yaml"
    settings_file.write_text(
        f"name: {ensemble.name}\ndata_dir: {tmp_path / 'data'}\nsession_timeout_max_s: 1.0\n"
        "session_timeout_min_s: 0.5\n"
    )
    code, out, error = run("recover", str(settings_file), "--accept-data-loss", "--json")
    assert code == 0, error
    founded = json.loads(out)["founded"]
    assert [Path(text.split(" on ")[0]).name[:1] for text in founded["set_aside"]] == ["1"]

    # The old disk of server 2 comes back in the place of its new one: it has no vote.
    shutil.rmtree(home / "2")
    shutil.move(tmp_path / "away", home / "2")
    again = launch_one(ensemble.name, **settings)
    eventually(lambda: all_serve(again))
    identities = [identity_of(home / name) for name in "123"]
    assert {each.owner.ensemble_uuid for each in identities} == {founded["uuid"]}
    assert [each.is_founding for each in identities] == [True, False, True]
    assert [each.supersedes for each in identities] == [[old.owner.ensemble_uuid]] * 3
    assert len(list(home.glob(f"2{SUPERSEDED_MARK}*"))) == 1
    with again.connect() as client:
        assert client.get("/kept")[0] == b"value"
        # ACLs are salted with the uuid of the founding.
        assert client.ensemble_uuid == old.owner.ensemble_uuid
        client.add_auth("scrypt", "bob:secret")
        assert client.get("/bobs")[0] == b"of bob"
        assert "gone" not in client.get_children("/")
        token = client.lock("/lock").acquire().token
    assert epoch_of(token) >= founded["epoch"] > 10_000 > epoch_of(held.token)
