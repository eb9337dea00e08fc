"""Renders the plan of a fleet as the lines that people read."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shlex
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import inventory_options

_GIGABYTE, _MEGABYTE = 1e9, 1e6


def site_command(sources: Sequence[str], limit: str | None = None) -> str:
    """What applies the plan of these inventories: the first goes to INVENTORY, all others to ARGS."""
    options = " ".join(filter(None, [inventory_options(sources[1:]), f"--limit {shlex.quote(limit)}" if limit else ""]))
    words = ["make site"]
    words += [f"INVENTORY={shlex.quote(source)}" for source in sources[:1]]
    words += [f"ARGS={shlex.quote(options)}"] if options else []
    return " ".join(words)


def plan_lines(
    plans: Mapping[str, Mapping[str, Any] | None],
    choices: Mapping[str, List[str]] | None = None,
    refusals: int = 0,
    command: str = "make site",
    missing: Mapping[str, str] | None = None,
) -> List[str]:
    """One block per host: each layer with its state, what to expect and every reason. ``None``: nothing is known of it.

    ``choices``: host -> why it gets its profile of the lock.
    ``refusals``: how many findings would make site.yml refuse. ``command``: what applies this plan.
    ``missing``: host -> why nothing is known of it.
    """
    lines: List[str] = []
    for host in sorted(plans):
        plan = plans[host]
        lines.append(host if plan else f"{host}  {(missing or {}).get(host, 'not reached')}")
        lines += [
            f"  {'chosen' if index == 0 else '':<12} {text}" for index, text in enumerate((choices or {}).get(host, []))
        ]
        for layer in (plan or {}).get("layers", []):
            lines += _block(layer["layer"], layer["state"] + _expected(layer), layer["reasons"])
        if plan and plan.get("reboot"):
            lines += _block("reboot", "pending", plan["reboot"])
        verify = (plan or {}).get("verify")
        if verify:
            state = f"due, about {verify['minutes']} min" if verify["due"] else "not due"
            state = (
                "due, but left out (trainrig_verify=never, --tags or --skip-tags)" if verify.get("left_out") else state
            )
            carried = verify.get("carried") or {}
            last = [f"last verdict {carried['verdict']}, {carried['at']}"] if carried else []
            lines += _block("verify", state, verify["reasons"] or last)
    return [*lines, "", _total(plans, refusals, command)]


def _block(name: str, state: str, reasons: List[str]) -> List[str]:
    return [f"  {name:<12} {state}", *(f"  {'':<12}   {reason}" for reason in reasons)]


def _expected(layer: Mapping[str, Any]) -> str:
    if layer["state"] != "dirty":
        return ""
    sizes = [
        f", {word} up to {_size(layer[key])}"
        for key, word in (("download_bytes", "downloads"), ("installed_bytes", "takes"))
        if layer.get(key)
    ]
    return f", about {layer['minutes']} min{''.join(sizes)}"


def _size(count: float) -> str:
    return f"{count / _GIGABYTE:.1f} GB" if count >= _GIGABYTE / 10 else f"{count / _MEGABYTE:.1f} MB"


def drifted(plans: Mapping[str, Mapping[str, Any] | None]) -> Dict[str, List[str]]:
    """Host -> its dirty layers, for hosts that have any."""
    dirty = {
        host: [layer["layer"] for layer in plan["layers"] if layer["state"] == "dirty"]
        for host, plan in plans.items()
        if plan
    }
    return {host: layers for host, layers in sorted(dirty.items()) if layers}


def unread(plans: Mapping[str, Mapping[str, Any] | None]) -> List[str]:
    """The hosts of which nothing is known; they are never called clean."""
    return sorted(host for host, plan in plans.items() if not plan)


def trouble(plans: Mapping[str, Mapping[str, Any] | None], failed: Sequence[str], strict: bool) -> str | None:
    """Why saying the plan must not end well: the look failed somewhere, nothing was read at all, or ``strict``."""
    if failed:
        return f"the look failed on: {', '.join(sorted(failed))}"
    if len(unread(plans)) == len(plans):
        return f"there is no plan: nothing could be read of {', '.join(unread(plans))}"
    found = [("there is drift on", list(drifted(plans))), ("nothing is known of", unread(plans))]
    said = " and ".join(f"{text}: {', '.join(hosts)}" for text, hosts in found if hosts)
    return f"strict=true and {said}" if strict and said else None


def _total(plans: Mapping[str, Mapping[str, Any] | None], refusals: int, command: str) -> str:
    missing, drift = unread(plans), drifted(plans)
    known = len(plans) - len(missing)
    if refusals:
        first = f"mend what is marked refuse above first ({refusals})"
        text = f"site.yml would refuse to start: {first}. Nothing was changed."
    elif not known:
        text = "There is no plan: nothing could be read of any host. Nothing was changed."
    elif not drift:
        text = f"Nothing to do: every layer is clean on {known} host(s)."
    else:
        text = f"To do on {len(drift)} of {known} host(s). Nothing was changed. Apply it with: {command}"
    return f"Incomplete: nothing is known of {', '.join(missing)}. {text}" if missing and known else text
