"""Clocks of nodes that were looked at one after the other: compared through the controller's, not with each other."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Pool
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.identity import clock
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

DATA = {"rules": load("rules")}


def host(name, clock_s, window=None, synchronized=False):
    identity = {"clock_unix_s": clock_s, "ntp_synchronized": synchronized}
    if window:
        identity["asked_unix_s"] = list(window)
    return Host(name, {"identity": identity}, None, DATA, "2026-11-30")


def hits(*hosts):
    return [hit.summary for hit in clock(Pool("default", list(hosts), {}, False))]


def test_a_later_look_is_no_skew():
    assert hits(host("a", 1000.5, (1000, 1001)), host("b", 1061.2, (1061, 1062))) == []


def test_a_long_look_is_unsure_by_its_length():
    assert hits(host("a", 1000.0, (1000, 1008)), host("b", 1008.0, (1000, 1008))) == []


def test_a_clock_that_is_off_is_named_by_its_own_skew():
    found = hits(host("a", 1000.5, (1000, 1001)), host("b", 1061.5, (1061, 1062)), host("c", 1100.5, (1090, 1091)))
    assert found == ["c's clock is 10.0 s ahead of the others"]


def test_bundles_are_compared_as_they_are():
    assert hits(host("a", 1000.0), host("b", 1009.0)) != []
    assert hits(host("a", 1000.0), host("b", 1001.0)) == []
