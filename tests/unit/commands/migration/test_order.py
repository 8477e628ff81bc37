"""What a user asks of `raykeeper import` and `export`: identities and files for TLS."""

from pathlib import Path

import pytest

from raykeeper.clusters.config import ConfigError
from raykeeper.commands.migration.order import Tls, proofs_of, tls_of


def test_identities_of_options_and_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("digest ann:secret\n")
    assert proofs_of(["digest:bob:a:b", "scrypt:eve:c"], file) == [
        ("digest", "ann:secret"),
        ("digest", "bob:a:b"),
        ("scrypt", "eve:c"),
    ]
    assert proofs_of(None, None) == []


@pytest.mark.parametrize("text", ["", "digest", "digest:ann", "sasl:ann:secret", "ann:secret"])
def test_a_malformed_identity_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="--auth needs") as refused:
        proofs_of([text], None)
    assert "secret" not in str(refused.value)


def test_files_for_tls(tmp_path: Path) -> None:
    ca, key = tmp_path / "ca", tmp_path / "key"
    ca.write_text("")
    assert tls_of(None, None, None) is None
    assert tls_of(str(ca), None, None) == Tls(str(ca))
    for arguments, text in (
        ((None, str(ca), None), "need --tls-ca"),
        ((str(ca), str(ca), None), "go together"),
        ((str(ca), str(ca), str(key)), "cannot read .*key: No such file"),
    ):
        with pytest.raises(ConfigError, match=text):
            tls_of(*arguments)
