"""Every case under tests/cases/diagnose: what must be found, and that nothing else is.

case     what it is
expect   `pass`, or lines `SEVERITY rule@host ACTION` (ACTION may be left out): all findings above info, no others.
         Lines that start with `info` are checked too, but further information is not in the way.
says     texts that the findings together must contain (summary, cause, next step or evidence)
silent   rules that must not even inform
verdict  of the whole; by default the worst severity of `expect`
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.engine import diagnose
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import verdict

from tests.unit.module_utils.diagnose import bundles

CASES = Path(__file__).parents[3] / "cases" / "diagnose"
KEYS = bundles.EDITS | {"case", "hosts", "expect", "says", "verdict", "silent", "today", "force", "allow_missing"}


def load() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            found.append(pytest.param(case, id=f"{path.stem}: {case['case']}"))
    return found


@pytest.mark.parametrize("case", load())
def test_case(case: dict[str, Any]) -> None:
    assert set(case) <= KEYS, f"unknown keys: {set(case) - KEYS}"
    findings = diagnose(
        case.get("stack"),
        None,
        bundles.fleet(case),
        bundles.DATA,
        case.get("today", bundles.TODAY),
        case.get("force", ()),
        case.get("allow_missing", False),
    )
    wanted = [] if case["expect"] == "pass" else [line.split() for line in case["expect"]]
    found = [
        (one["severity"], f"{one['rule']}@{one['host'] or one['pool']}", one["action"]["kind"]) for one in findings
    ]
    for line in wanted:
        assert any(list(row[: len(line)]) == line for row in found), f"{' '.join(line)} is not among {found}"
    expected = {line[1] for line in wanted if line[0] != "info"}
    surplus = [row for row in found if row[0] != "info" and row[1] not in expected]
    assert not surplus, f"found too much: {surplus}\n{findings}"
    worst = wanted[0][0] if wanted else "pass"
    assert verdict(findings) == case.get("verdict", "pass" if worst == "info" else worst)
    texts = " ".join(f"{one['cause']} {one['action']['text']}" for one in findings)
    assert not re.findall(r"\{[a-z_]+\}", texts), "a name in a text of data/rules.yml was not filled"
    assert not {one["rule"] for one in findings} & set(case.get("silent", []))
    said = str(findings)
    for text in case.get("says", []):
        assert text in said, f"{text!r} is not said in {said}"
