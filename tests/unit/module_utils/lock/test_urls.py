"""Addresses that people write: what is malformed about one, and that none is shown with what could be a password."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.urls import malformed, shown
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "url",
    [
        "https://mirror.example/debian",
        "http://127.0.0.1:8080/x",
        "http://[::1]:8080/x",
        "https://me:pa%2Fss%23@mirror.example:8443/x",
        "https://token@mirror.example/x",
        "https://mirror.example/x@1.2.tar.gz",
        "file:///srv/mirror",
        "file:/srv/mirror",
        "copy:///srv/mirror",
    ],
)
def test_sound_addresses(url):
    assert malformed(url) is None


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "has no scheme"),
        ("/srv/mirror", "has no scheme"),
        ("mirror.example/debian", "has no scheme"),
        ("mirror.example:8080/debian", "has no scheme"),
        ("://mirror.example/debian", "has no scheme"),
        ("https://mirror.example/debian main", "has a space in it"),
        ("https://mirror.example/debian\nx", "has a space in it"),
        ("https://me:pa ss@mirror.example/", "has a space in it"),
        ("https:///debian", "has no host"),
        ("https:/mirror.example/debian", "has no host"),
        ("https://mirror.example:80a/x", "its host or port cannot be read"),
        ("https://mirror.example:99999/x", "its host or port cannot be read"),
        ("https://[::1/x", "its host or port cannot be read"),
        ("https://me:pa/ss@mirror.example/x", "its host or port cannot be read"),
        ("https://me:pa#ss@mirror.example/x", "its host or port cannot be read"),
        ("https://me:pa?ss@mirror.example/x", "its host or port cannot be read"),
        ("https://me:12/34@mirror.example/x", "has an @ behind its port"),
    ],
)
def test_malformed_addresses(url, text):
    assert (malformed(url) or ("", ""))[0] == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("numpy", "numpy"),
        ("a@b", "a@b"),
        ("/srv/x@1:2/y", "/srv/x@1:2/y"),
        ("https://mirror.example:80/x", "https://mirror.example:80/x"),
        ("https://me:pass@mirror.example:80/x", "https://***@mirror.example:80/x"),
        ("https://token@mirror.example/x", "https://***@mirror.example/x"),
        ("https://mirror.example/x?token=pass", "https://mirror.example/x?***"),
        ("https://mirror.example/debian main", "https://mirror.example/debian main"),
        ("https://me:pass word", "https://***"),
        ("https://me:p@ss/word@mirror.example/x", "https://***"),
        ("https://to/ken@mirror.example/x", "https://***"),
        ("me:pass@mirror.example/x", "***"),
        ("deb https://me:pass@mirror.example/x", "***"),
    ],
)
def test_how_an_address_is_shown(text, printed):
    assert shown(text) == printed


@given(
    st.text("/#?@: %[]ab1", max_size=6),
    st.text("/#?@: %[]ab1", max_size=6),
    st.sampled_from(
        ["https://me:{}@mirror.example/x", "https://me:{}@mirror.example:80/x?y", "me:{}@mirror.example/x"]
    ),
)
def test_a_password_is_never_shown(before, after, form):
    assert "SECRET" not in shown(form.format(f"{before}SECRET{after}"))
