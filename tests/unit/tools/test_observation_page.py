"""docs/observation.md is what the probe table and the shape say."""

from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, probes

from tools import observation_page


def test_page_is_up_to_date():
    assert observation_page.PAGE.read_text(encoding="utf-8") == observation_page.page(), "run make docs"


def test_every_probe_and_every_name_is_on_it():
    page = observation_page.page()
    assert [name for name in probes.table() if f"| `{name}` |" not in page] == []
    assert [name for name in build.empty() if f"    {name}: " not in page] == []
