"""What apt prints, read: texts written for this test in apt's forms."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import apt_output
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.apt_output import File, Offer

DIGEST = "0a" * 32


def test_versions_on_offer():
    text = (
        "   alpha |      2.0-1 | http://m/debian trixie/main amd64 Packages\n"
        "   alpha |      2.0-1 | http://m/debian trixie-updates/main amd64 Packages\n"
        "   alpha |   1:1.0~b1 | http://g/repo  Packages\n"
        "   alpha |      2.0-1 | http://m/debian trixie/main Sources\n"
    )
    assert apt_output.madison(text) == {
        "alpha": [Offer("2.0-1", "http://m/debian"), Offer("1:1.0~b1", "http://g/repo")]
    }
    assert apt_output.madison("N: Unable to locate package x\n") == {}


def test_a_simulation():
    text = "Reading...\nInst b (2.0-1 D:13/stable [amd64]) []\nInst a [1.0] (1:3 N:1 [all])\nConf b (2.0-1 D)\n"
    assert apt_output.installed(text) == {"b": "2.0-1", "a": "1:3"}
    with pytest.raises(apt_output.OutputError, match="removes old-one"):
        apt_output.installed("Remv old-one [1.0]\n")


def test_files():
    text = (
        f"'http://m/debian/pool/a/a_1%3a3-1_amd64.deb' a_1%3a3-1_amd64.deb 1200 SHA256:{DIGEST}\n"
        f"'http://me:hunter2@m/debian/pool/b/b_2_all.deb' b_2_all.deb 7 SHA256:{DIGEST.upper()}\n"
    )
    assert apt_output.files(text) == [
        File("a", "1:3-1", "amd64", "http://m/debian/pool/a/a_1%3a3-1_amd64.deb", 1200, DIGEST),
        File("b", "2", "all", "http://m/debian/pool/b/b_2_all.deb", 7, DIGEST),
    ]


@pytest.mark.parametrize("digest", ["MD5Sum:" + "a" * 32, "", "SHA256:abc"])
def test_a_file_without_a_good_hash_is_no_file(digest):
    with pytest.raises(apt_output.OutputError, match=r"no SHA-256 of a_1_all\.deb"):
        apt_output.files(f"'http://m/a_1_all.deb' a_1_all.deb 5 {digest}\n")


def test_records():
    text = (
        "Package: a\nSource: src (1.0)\nDescription: one\n two\nConflicts: x (<< 2), y | z\n\nPackage: b\nVersion: 3\n"
    )
    found = apt_output.records(text)
    assert [one["Package"] for one in found] == ["a", "b"]
    assert apt_output.names_in(found[0]["Conflicts"]) == ["x", "y", "z"]
