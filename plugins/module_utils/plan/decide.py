"""Decides, per layer, clean or dirty and why. Anything unknown or unreadable is dirty."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping, Optional, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.changes import fingerprint_changes, input_changes
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.digest import digest

APPLYING, CLEAN = "applying", "clean"


class LayerPlan(TypedDict):
    layer: str
    state: str  # clean | dirty | deferred
    reasons: List[str]
    digest: str
    inputs: Mapping[str, Any]


def manifest_problem(probe: Optional[Mapping[str, Any]], manifest: Any) -> Optional[str]:
    """Why the node's manifest cannot be relied on at all, or ``None``."""
    status = (probe or {}).get("status", "absent")
    if status == "absent":
        return "no manifest on this node: nothing was applied by trainrig, or it was deleted"
    if status != "ok" or not isinstance(manifest, Mapping) or not isinstance(manifest.get("layers"), Mapping):
        return "the manifest on this node cannot be read"
    return None


def decide(
    layer: str,
    inputs: Mapping[str, Any],
    entry: Optional[Mapping[str, Any]],
    fingerprints: Optional[Mapping[str, Any]],
    manifest_trouble: Optional[str] = None,
    recheck: bool = False,
    deferred: Optional[str] = None,
) -> LayerPlan:
    """Compare a layer's manifest entry with its present inputs and fingerprints.

    ``deferred`` is the reason why the layer cannot run now at all (it wins: nothing is done, nothing is wrong).
    """
    reasons = _reasons(inputs, entry, fingerprints, manifest_trouble, recheck)
    state = "dirty" if reasons else "clean"
    if deferred and reasons:
        state, reasons = "deferred", [deferred]
    return {"layer": layer, "state": state, "reasons": reasons, "digest": digest(inputs), "inputs": inputs}


def _reasons(
    inputs: Mapping[str, Any],
    entry: Optional[Mapping[str, Any]],
    fingerprints: Optional[Mapping[str, Any]],
    manifest_trouble: Optional[str],
    recheck: bool,
) -> List[str]:
    if manifest_trouble:
        return [manifest_trouble]
    if not entry:
        return ["never applied on this node"]
    if entry.get("state") != CLEAN:
        since = f" at {entry['started']}" if entry.get("started") else ""
        return [f"an earlier run was interrupted while applying it{since}"]
    recorded = entry.get("inputs")
    if not isinstance(recorded, Mapping) or digest(recorded) != entry.get("digest"):
        return ["its entry in the manifest was altered"]
    reasons = input_changes(recorded, inputs) + fingerprint_changes(entry.get("fingerprints") or {}, fingerprints)
    if not reasons and digest(inputs) != entry.get("digest"):
        reasons = ["its inputs changed"]
    return reasons or (["asked for by trainrig_recheck"] if recheck else [])
