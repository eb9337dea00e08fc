"""The one word over findings, measurements and hosts: pass, warn, fail, refuse or incomplete."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Iterable, Mapping

VERDICTS = ("pass", "warn", "fail", "refuse", "incomplete")
#: States of a host in which all that was wanted of it was done.
DONE = ("ok",)


def verdict(
    findings: Iterable[Mapping[str, Any]], measurements: Iterable[Mapping[str, Any]], states: Mapping[str, str]
) -> str:
    """Return the verdict. The gravest wins, in this order:

    1. refuse: something forbids to start at all; nothing else was done, so nothing else counts
    2. fail: something is broken, on whichever host; a host that is missing does not make it better
    3. incomplete: a host is unreachable, deferred, waits for a reboot or failed on the way: what was not looked at
       cannot pass; also when there is no host
    4. warn, 5. pass

    ``states`` maps each host to a word; only "ok" is done, every other word (known or not) is not. A word or a
    severity that nobody knows is never a pass.
    """
    severities = {str(one.get("severity")) for one in findings}
    statuses = {str(one.get("status")) for one in measurements}
    if "refuse" in severities:
        return "refuse"
    if "fail" in severities or "fail" in statuses or "failed" in states.values():
        return "fail"
    unknown = (severities - {"warn", "info"}) | (statuses - {"pass", "warn", "info"})
    if unknown or not states or any(state not in DONE for state in states.values()):
        return "incomplete"
    return "warn" if "warn" in severities | statuses else "pass"
