"""pip's settings of this machine, turned into a node's."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import configparser

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.pip_settings import read

from tools.lab.pip import for_nodes, index_root, local_path

CACHE = "http://192.0.2.1:3144"


def translated(text, *directories, env=None):
    settings, warnings = read([("pip.conf", text)], env or {})
    assert not warnings
    return for_nodes(settings, CACHE, lambda path: path in directories)


def options(found):
    parser = configparser.RawConfigParser()
    parser.read_string(found.text)
    return dict(parser["global"])


def test_without_settings_only_the_cache():
    found = translated("")
    assert options(found) == {"proxy": CACHE}
    assert (found.directories, found.files) == ((), ())


def test_local_places_go_along_under_the_same_path():
    found = translated(
        "[global]\nfind-links = /srv/wheels /srv/one.html https://example.org/wheels\n"
        "extra-index-url = file:///srv/a%20b/simple https://example.org/simple\n"
        "constraint = /etc/c.txt\ncert = /etc/ca.crt\n",
        "/srv/wheels",
    )
    assert found.directories == ("/srv/a b", "/srv/wheels"), "an index is taken with what lies beside it"
    assert found.files == ("/etc/c.txt", "/etc/ca.crt", "/srv/one.html")
    assert options(found)["find-links"] == "/srv/wheels /srv/one.html https://example.org/wheels"
    assert options(found)["extra-index-url"] == "file:///srv/a%20b/simple https://example.org/simple"


def test_the_cache_takes_the_proxy_s_place_and_a_private_key_stays_here():
    found = translated("[global]\nproxy = http://proxy.example.org:8080\nclient-cert = /root/key.pem\n")
    assert options(found) == {"proxy": CACHE}
    assert "/root/key.pem" not in found.files


def test_the_environment_counts():
    found = translated("[global]\ntimeout = 5\n", "/w", env={"PIP_DEFAULT_TIMEOUT": "99", "PIP_FIND_LINKS": "/w"})
    assert options(found) == {"proxy": CACHE, "timeout": "99", "find-links": "/w"}
    assert found.directories == ("/w",)


def test_what_pip_conf_says_comes_out_of_it_again():
    text = "[global]\nindex-url = https://example.org/simple\ntrusted-host = a.example.org b.example.org\nretries = 2\n"
    before, _ = read([("pip.conf", text)], {})
    after, _ = read([("pip.conf", translated(text).text)], {})
    assert {key: after[key].values for key in before} == {key: one.values for key, one in before.items()}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/srv/wheels", "/srv/wheels"),
        ("file:///srv/a%20b", "/srv/a b"),
        ("file://localhost/srv", "/srv"),
        ("https://example.org/simple", None),
        ("wheels", None),
    ],
)
def test_local_paths(value, path):
    assert local_path(value) == path


@pytest.mark.parametrize(
    ("index", "root"), [("/srv/index/simple", "/srv/index"), ("/pypi/simple", "/pypi"), ("/simple", "/simple")]
)
def test_never_the_whole_file_system(index, root):
    assert index_root(index) == root
