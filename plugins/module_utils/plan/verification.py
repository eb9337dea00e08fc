"""Decides whether verification is due, or whether the last result still stands."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.digest import digest

#: Verdicts that need no second look as long as nothing changed.
_STANDS = ("pass", "warn")


def due_reasons(
    record: Optional[Mapping[str, Any]],
    dirty: Iterable[str],
    boot_id: Optional[str],
    members: List[str],
    subject: str,
    inputs: Mapping[str, Any],
    policy: str = "auto",
    torch_error: Optional[str] = None,
) -> List[str]:
    """Why the verification must run; empty when the recorded result still stands.

    ``record`` is the manifest's ``verify`` entry, ``members`` the sorted hosts that train together, ``subject`` the
    interpreter that is verified, ``inputs`` what else the result depends on (the role's files and options),
    ``policy`` is ``trainrig_verify``: with ``always`` it is due even when nothing changed. ``torch_error`` is why the
    environment's torch could not be imported just now: no earlier result stands against that.
    """
    if policy == "always":
        return ["asked for by trainrig_verify=always"]
    reasons = [f"layer {layer} changes" for layer in dirty]
    if torch_error:
        reasons.append(f"torch cannot be imported: {torch_error}")
    if record and not record.get("measurements"):
        return [*reasons, "the last result measured nothing"]
    if not record or record.get("verdict") not in _STANDS:
        return [*reasons, "no pass is on record" if not record else f"the last verdict was {record.get('verdict')}"]
    if boot_id is None or record.get("boot_id") != boot_id:
        reasons.append("the machine was booted since")
    if record.get("members") != members:
        reasons.append("the set of hosts changed")
    if record.get("subject") != subject:
        reasons.append(f"another environment is verified: {record.get('subject')} -> {subject}")
    if record.get("inputs_digest") != digest(inputs):
        reasons.append("the verification itself or its options changed")
    return reasons
