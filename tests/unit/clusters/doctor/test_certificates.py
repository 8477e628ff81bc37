"""When a certificate in a file expires, and why one cannot be used."""

from datetime import timedelta
from pathlib import Path

import pytest

from raykeeper.clusters.doctor.certificates import examine_certificate
from raykeeper.clusters.doctor.rules.facts import TlsFileFacts
from raykeeper.links.jute_tls import TlsFiles
from tests.harness.tls_files import TlsFolder

USE = "clients of ZooKeeper"
DAY_S = 86_400


def examined(files: TlsFiles) -> list[TlsFileFacts]:
    return examine_certificate(files, USE)


@pytest.mark.parametrize("days", [-400, -1, 3, 365])
def test_the_end_of_a_certificate_is_told_also_when_it_is_past(days: int, tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    folder.issue("own", valid_for=timedelta(days=days))
    (facts,) = examined(folder.of_server("own"))
    assert (facts.used_for, facts.path, facts.problem) == (USE, folder.path("own", "pem"), "")
    assert facts.expires_in_s is not None
    assert abs(facts.expires_in_s - days * DAY_S) < 600


def test_the_authority_is_examined_too(tmp_path: Path) -> None:
    own, authority = examined(TlsFolder(tmp_path).of_server(asks_clients=True))
    assert own.expires_in_s is not None and own.expires_in_s > 365 * DAY_S
    assert authority.used_for == f"{USE}, as their authority"
    assert authority.expires_in_s is not None and authority.expires_in_s > 365 * DAY_S


def test_an_authority_of_which_no_certificate_may_sign_tells_no_end(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    files = folder.of_server()
    own = TlsFiles(files.certificate, files.key, files.certificate)
    assert examined(own)[1].expires_in_s is None


def test_a_file_that_cannot_be_used_is_told_with_its_path(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    good = folder.of_server()
    other_key = TlsFiles(good.certificate, folder.path("stranger", "key"))
    missing = TlsFiles(str(tmp_path / "missing.pem"), good.key)
    (tmp_path / "noise.pem").write_text("noise")
    noise = TlsFiles(good.certificate, good.key, str(tmp_path / "noise.pem"))
    for files, at, path in (
        (other_key, 0, good.certificate),
        (missing, 0, missing.certificate),
        (noise, 1, noise.authority),
    ):
        facts = examined(files)[at]
        assert path in facts.problem and facts.expires_in_s is None


def test_a_path_may_begin_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TlsFolder(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (facts,) = examined(TlsFiles("~/authority.pem", "~/authority.key"))
    assert (facts.path, facts.problem) == (str(tmp_path / "authority.pem"), "")
