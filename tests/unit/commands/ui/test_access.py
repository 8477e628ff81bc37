"""Who may use the page, and from where."""

import pytest

from raykeeper.commands.ui.access import (
    HEADERS,
    AccessControl,
    foreign_problem,
    is_json,
    new_token,
)

HOST = {"Host": "127.0.0.1:8267"}
HERE = "http://127.0.0.1:8267"


@pytest.mark.parametrize(
    "text", ["", "open", "open-sesame ", "Open-sesame", "ö", "\udc80", "open-sesame" * 1000]
)
def test_only_the_token_is_the_token(text: str) -> None:
    access = AccessControl("open-sesame", b"key")
    assert access.is_token("open-sesame") and not access.is_token(text)


@pytest.mark.parametrize(
    ("header", "is_right"),
    [
        ("Bearer open-sesame", True),
        ("bearer  open-sesame", True),
        ("open-sesame", False),
        ("Basic open-sesame", False),
        ("Bearer", False),
        ("", False),
    ],
)
def test_a_program_shows_the_token_in_a_header(header: str, is_right: bool) -> None:
    assert AccessControl("open-sesame", b"key").has_token(header) is is_right


def test_a_cookie_is_taken_only_by_the_process_that_gave_it_out() -> None:
    access = AccessControl("open-sesame", b"key")
    one, other = access.new_cookie(), access.new_cookie()
    viewer, _, proof = one.partition(".")
    assert access.viewer_of(one) == viewer != access.viewer_of(other)
    assert "open-sesame" not in one
    for forged in ("", ".", viewer, f"{viewer}.", f"x.{proof}", f"{one}0", "ö.ö", "\udc80.a"):
        assert access.viewer_of(forged) is None
    assert AccessControl("open-sesame", b"another").viewer_of(one) is None


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(10)}
    assert len(tokens) == 10 and all(len(each) == 32 for each in tokens)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8267", "localhost", "localhost:9000", "[::1]:8267", "LOCALHOST:1"]
)
def test_a_page_of_this_machine_is_ours(host: str) -> None:
    """Any port: a tunnel may lead here from another one."""
    assert foreign_problem("GET", {"Host": host}) is None
    assert foreign_problem("POST", {"Host": host, "Origin": f"http://{host}"}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example:8267", "localhost.", "10.0.0.1", "[::1"]
)
def test_another_name_that_leads_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser takes this server for another site's."""
    problem = foreign_problem("GET", {"Host": host})
    assert problem is not None and "the Host must be this machine" in problem


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8267", "http://127.0.0.1:1", ""],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_request_of_another_page_is_refused(method: str, origin: str) -> None:
    problem = foreign_problem(method, {**HOST, "Origin": origin})
    assert problem is not None and "the Origin must be this page" in problem


def test_another_site_asks_for_no_change() -> None:
    """Also not with a form, whose Origin an old browser may leave out."""
    for site, is_ours in {"cross-site": False, "same-site": False, "none": True}.items():
        headers = {**HOST, "Sec-Fetch-Site": site}
        assert (foreign_problem("DELETE", headers) is None) is is_ours
        assert foreign_problem("GET", headers) is None  # a link may lead here
    assert foreign_problem("DELETE", {**HOST, "Sec-Fetch-Site": "same-origin"}) is None


@pytest.mark.parametrize(
    ("kind", "is_right"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("text/plain; application/json", False),
        ("", False),
    ],
)
def test_json_is_what_no_form_can_send(kind: str, is_right: bool) -> None:
    assert is_json({"Content-Type": kind}) is is_right
    assert is_json({}) is False


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy and "http" not in policy
    assert "frame-ancestors 'none'" in policy and "require-trusted-types-for" in policy
