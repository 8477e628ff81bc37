"""TLS of ZooKeeper's clients: files that can be used or not, and a connection without a socket."""

import shutil
import ssl
from pathlib import Path

import pytest

from raykeeper.links.jute_tls import TlsAcceptor, TlsEnd, TlsFiles, make_context
from tests.harness.tls_files import TlsFolder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


class Client:
    """The client's end, as OpenSSL has it, over buffers."""

    def __init__(self, context: ssl.SSLContext, end: TlsEnd) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._end = end

    def shake_hands(self, piece: int = 1 << 20) -> bytes:
        """Make the handshake, with pieces of so many bytes; return what the server was told."""
        told = b""
        for _ in range(4):
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                told += self.carry(piece)
        return told + self.carry(piece)

    def carry(self, piece: int = 1 << 20) -> bytes:
        """Carry bytes to the server and back; return what it was told."""
        sent, told = self._outgoing.read(), b""
        for begin in range(0, len(sent), piece):
            told += self._end.feed(sent[begin : begin + piece])
            self._incoming.write(self._end.outgoing())
        return told

    def say(self, data: bytes) -> None:
        self._tls.write(data)

    def hear(self, data: bytes) -> bytes:
        """Return what the bytes of the server say."""
        self._incoming.write(data)
        heard = b""
        try:
            while piece := self._tls.read(1 << 16):
                heard += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # nothing more, for now or ever
        return heard

    def end(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_both_ends_hear_each_other_however_the_bytes_are_cut(files: TlsFolder, piece: int) -> None:
    end = TlsAcceptor(files.of_server()).accept()
    client = Client(files.of_client(), end)
    assert client.shake_hands(piece) == b""
    client.say(b"ruok")
    client.say(b"more")
    assert client.carry(piece) == b"ruokmore"
    long = bytes(range(256)) * 1_000
    assert client.hear(end.encrypt(b"imok") + end.encrypt(long)) == b"imok" + long
    assert not end.is_over
    client.say(b"last")
    client.end()
    assert client.carry(piece) == b"last" and end.is_over
    assert client.hear(end.end()) == b""


def test_the_server_ends_it_whether_or_not_there_was_a_handshake(files: TlsFolder) -> None:
    end = TlsAcceptor(files.of_server()).accept()
    assert end.end() == b""
    end = TlsAcceptor(files.of_server()).accept()
    client = Client(files.of_client(), end)
    client.shake_hands()
    assert client.hear(end.end()) == b""


@pytest.mark.parametrize("data", [b"ruok" * 100, bytes(100), b"\0\0\0\x2d" + bytes(45)])
def test_what_is_no_tls_is_an_error_and_is_told_so(files: TlsFolder, data: bytes) -> None:
    end = TlsAcceptor(files.of_server()).accept()
    with pytest.raises(ssl.SSLError):
        end.feed(data)
    assert end.outgoing()[:1] in (b"\x15", b""), "an alert"


@pytest.mark.parametrize(
    ("name", "is_taken"), [("authority", True), ("stranger", False), ("", False)]
)
def test_clients_show_a_certificate_of_the_authority(
    files: TlsFolder, name: str, is_taken: bool
) -> None:
    end = TlsAcceptor(files.of_server(asks_clients=True)).accept()
    client = Client(files.of_client(name), end)
    if is_taken:
        client.shake_hands()
        client.say(b"ruok")
        assert client.carry() == b"ruok"
        return
    with pytest.raises(ssl.SSLError):
        client.shake_hands()
    assert end.outgoing(), "the client is told why"


def test_files_that_cannot_be_used_are_named(files: TlsFolder, tmp_path: Path) -> None:
    good = files.of_server()
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    for bad, named in (
        (TlsFiles(str(tmp_path / "missing"), good.key), "missing"),
        (TlsFiles(good.certificate, str(broken)), "broken.pem"),
        (TlsFiles(good.certificate, files.of_server("stranger").key), "stranger.key"),
        (TlsFiles(good.certificate, good.key, str(broken)), "broken.pem"),
    ):
        with pytest.raises(OSError, match=named):
            make_context(bad)


def test_a_key_with_a_passphrase_is_refused_without_a_question(
    files: TlsFolder, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    good = files.of_server()
    key = serialization.load_pem_private_key(Path(good.key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(OSError, match="the key has a passphrase"):
        make_context(TlsFiles(good.certificate, str(locked)))


def test_a_path_may_begin_at_the_home(
    files: TlsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = files.of_server()
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(good.certificate, tmp_path / "c.pem")
    shutil.copy(good.key, tmp_path / "c.key")
    make_context(TlsFiles("~/c.pem", "~/c.key"))


def test_files_that_change_are_read_again(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    acceptor = TlsAcceptor(folder.of_server())
    assert not acceptor.renew()
    before = Path(folder.path("authority", "pem")).read_bytes()
    folder.issue("authority")
    assert Path(folder.path("authority", "pem")).read_bytes() != before
    assert acceptor.renew() and not acceptor.renew()
    Path(folder.path("authority", "key")).unlink()
    with pytest.raises(OSError, match=r"authority\.key"):
        acceptor.renew()
    assert not acceptor.renew(), "it is not tried again before another change"
    client = Client(folder.of_client(), acceptor.accept())
    client.shake_hands()
    client.say(b"ruok")
    assert client.carry() == b"ruok", "what was read before stays in use"
