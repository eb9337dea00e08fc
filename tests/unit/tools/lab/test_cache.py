"""The package cache's configuration."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.lab.cache import configuration
from tools.lab.names import NETWORKS, Addresses

ADDRESSES = Addresses(NETWORKS[0])


def made(apt_settings=""):
    text = configuration(ADDRESSES, Path("/srv/kept"), Path("/srv/logs"), apt_settings)
    return dict(line.split(":", 1) for line in text.splitlines())


def test_it_listens_on_the_labs_cable_only():
    assert made()["BindAddress"].split() == [str(ADDRESSES.cache)]


@pytest.mark.parametrize(("target", "passed"), [("example.org:443", True), ("example.org:22", False)])
def test_only_https_is_passed_through(target, passed):
    assert bool(re.search(made()["PassThroughPattern"].strip(), target)) is passed


@pytest.mark.parametrize(
    ("settings", "proxy"),
    [
        ('Acquire::http::Proxy "http://proxy.example.org:8080";\n', "http://proxy.example.org:8080"),
        ('Acquire::http::Proxy "DIRECT";\n', None),
        ('Acquire::http::Proxy::mirror.example.org "http://proxy.example.org";\n', None),
        ("", None),
    ],
)
def test_this_machine_s_own_proxy_is_used(settings, proxy):
    found = made(settings).get("Proxy")
    assert (found and found.strip()) == proxy
