"""A short run of the bundle fuzz; `make fuzz` is the long one. The seed of a failure is in its message."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import random

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, registry

from tests.fuzz import bundles

COUNT = 100


def test_mutated_bundles_give_an_observation():
    seed = random.SystemRandom().randrange(2**32)
    known = bundles.texts()
    for number in range(COUNT):
        raised = bundles.parse(bundles.bundle(known, random.Random(f"{seed}/{number}")))
        assert not raised, f"seed {seed}, bundle {number}"


def test_a_parser_that_raises_is_noticed(monkeypatch):
    def broken(reading):
        raise ValueError("broken on purpose")

    monkeypatch.setitem(registry.PARSERS, "virt", broken)
    outputs = {"virt": bundles.source.Output("kvm\n")}
    assert bundles.parse(outputs) == [f"virt: {build.GUARDED} ValueError:"]
