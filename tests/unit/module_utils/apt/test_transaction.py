"""Transactions of apt: what differs, what apt would do, what it may not do, and the way back."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.apt.transaction import (
    Present,
    Step,
    Wish,
    installed,
    simulated,
    told,
    undone,
    unwanted,
)

STATUS = """\
ii |tool-a|1:2.0-1
hi |tool-b|3.1-1
iF |tool-c|3.1-1
rc |tool-d|0.9-1
iHR|tool-e|1.0-1
un |tool-f|
"""
SIMULATION = """\
NOTE: This is only a simulation!
Reading package lists...
The following packages will be REMOVED:
  tool-old*
Purg tool-old [1.0-1] [tool-meta:amd64 ]
Remv tool-gone [0.5]
Inst tool-a [1:2.0-1] (1:2.1-1 Somewhere:13/stable [amd64]) []
Inst tool-new (4.0-1 Somewhere:13/stable [all])
Conf tool-a (1:2.1-1 Somewhere:13/stable [amd64])
Conf tool-new (4.0-1 Somewhere:13/stable [all])
"""


def test_what_dpkg_knows():
    found = installed(STATUS)
    assert set(found) == {"tool-a", "tool-b", "tool-c", "tool-e"}, "what left its settings behind is not there"
    assert [found[name].whole for name in sorted(found)] == [True, True, False, False]


def test_what_differs():
    present = installed(STATUS)
    wish = Wish({"tool-a": "1:2.0-1", "tool-b": "3.1-1"}, ["tool-d", "tool-z"])
    assert (wish.differing(present), wish.leaving(present)) == ([], [])
    wish = Wish({"tool-a": "1:2.1-1", "tool-c": "3.1-1", "tool-n": "1"}, ["tool-b", "tool-a"])
    assert wish.differing(present) == ["tool-a", "tool-c", "tool-n"], "moved, half configured, missing"
    assert wish.leaving(present) == ["tool-b"], "what is asked for does not go"
    assert wish.words(present) == ["tool-a=1:2.1-1", "tool-c=3.1-1", "tool-n=1", "tool-b-"]


def test_what_apt_would_do():
    steps = simulated(SIMULATION)
    assert steps == [
        Step("tool-old", "1.0-1", ""),
        Step("tool-gone", "0.5", ""),
        Step("tool-a", "1:2.0-1", "1:2.1-1"),
        Step("tool-new", "", "4.0-1"),
    ]
    assert unwanted(steps, Wish({}, ["tool-old"])) == ["tool-gone"]
    assert unwanted(steps, Wish({}, ["tool-old", "tool-gone"])) == []
    assert told(steps) == {
        "tool-old": "removed",
        "tool-gone": "removed",
        "tool-a": "1:2.0-1 -> 1:2.1-1",
        "tool-new": "4.0-1",
    }


def test_a_package_that_is_removed_and_installed_is_one_step():
    text = "Remv tool-a [1]\nInst tool-a [1] (2 X:1 [amd64])\n"
    assert simulated(text) == [Step("tool-a", "1", "2")]


def test_the_way_back():
    before = {"tool-a": Present("1:2.0-1", "hi "), "tool-old": Present("1.0-1", "ii ")}
    steps = [Step("tool-a", "1:2.0-1", "1:2.1-1"), Step("tool-old", "1.0-1", ""), Step("tool-new", "", "4.0-1")]
    assert undone(steps, before) == Wish({"tool-a": "1:2.0-1", "tool-old": "1.0-1"}, ["tool-new"])
