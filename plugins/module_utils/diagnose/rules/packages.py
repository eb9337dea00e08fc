"""Rules about packages: what may move the driver by itself, what is half done, what does not fit together."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import (
    belongs,
    by_hold,
    driver_packages,
    held,
    library,
    package_driver,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.origins import installed_origin, origins, policy
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import differs, driver_part, upstream
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed


@host_rule("packages.hold_incomplete")
def hold_incomplete(host: Host) -> Iterator[Hit]:
    """A hold on the top package leaves its dependencies free."""
    members = driver_packages(host)
    if not members or held(host) is None:
        return
    kept, free = by_hold(host, members)
    if not free:
        return
    listing, packages = ("apt_holds", "dpkg") if host.dpkg else ("dnf_versionlock", "rpm")
    shown = [evidence(listing, " ".join(kept) or "nothing of the driver family is held")]
    shown += [evidence(packages, f"{name} {members[name]}") for name in free[:5]]
    driver_held = [name for name in kept if not belongs(host, "exactly_driver", name)]
    driver_free = [name for name in free if not belongs(host, "exactly_driver", name)]
    if kept and (driver_held or not driver_free):
        yield Hit(f"held: {listed(kept)}; not held: {listed(free)}", shown, free=" ".join(free))
    elif kept or (not driver_free and host.driver_loaded):
        text = f"{listed(free)} can move, {listed(kept) if kept else 'the driver itself'} cannot"
        yield Hit(text, shown, severity="warn", say="one_of_a_pair", free=" ".join(free))
    else:
        text = f"no package of the driver family is held ({len(free)} are installed)"
        yield Hit(text, shown, severity="info", free=" ".join(free))


@host_rule("packages.unattended_upgrades")
def unattended_upgrades(host: Host) -> Iterator[Hit]:
    """Whether the nightly upgrade can reach the driver."""
    settings: Dict[str, List[str]] = host.get("packages", "apt_settings") or {}
    switched_on = (settings.get("apt::periodic::unattended-upgrade") or ["0"])[-1].strip() not in (
        "0",
        "",
        "false",
        "no",
    )
    unit = host.unit("unattended-upgrades")
    mover = _upgrade_that_moved(host)
    if unit and unit.get("load") in ("not-found", "masked"):
        return
    if not switched_on and not mover:
        return
    members = {name: version for name, version in driver_packages(host).items() if name in host.dpkg}
    _kept, free = by_hold(host, members)
    excluded = settings.get("unattended-upgrade::package-blacklist") or []
    reachable = [name for name in free if not any(_matches(pattern, name) for pattern in excluded)]
    allowed = " ".join(
        (settings.get("unattended-upgrade::allowed-origins") or [])
        + (settings.get("unattended-upgrade::origins-pattern") or [])
    )
    wide = re.search(r"nvidia|cuda|developer\.download|\*", allowed, re.I) is not None
    reachable = [
        name
        for name in reachable
        if wide or installed_origin(host, name) == "distribution" or (mover and mover[0] == name)
    ]
    if not reachable:
        return
    shown = [evidence("apt_config", f"Unattended-Upgrade::Package-Blacklist: {' '.join(excluded) or 'empty'}")]
    shown += [evidence("dpkg", f"{name} {members[name]}") for name in reachable[:3]]
    if mover:
        shown.append(evidence("apt_history", mover[1]))
    yield Hit(f"unattended-upgrades may replace {listed(reachable)}", shown, free=" ".join(reachable))


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


def _upgrade_that_moved(host: Host) -> Optional[Tuple[str, str]]:
    """The last time unattended-upgrades moved the driver family: (package, line)."""
    for entry in reversed(host.get("packages", "history") or []):
        if "unattended-upgrade" not in str(entry.get("commandline") or ""):
            continue
        for row in (entry.get("actions") or {}).get("upgrade") or []:
            name = str(row.get("name", "")).split(":")[0]
            if belongs(host, "driver", name) and driver_part(row.get("to")):
                return (
                    name,
                    f"{entry.get('start') or ''} {entry['commandline']}: {name} {row.get('from')} -> {row.get('to')}",
                )
    return None


@host_rule("packages.candidate_moves_driver")
def candidate_moves_driver(host: Host) -> Iterator[Hit]:
    """The next upgrade would take another version."""
    members = driver_packages(host)
    for name, row in policy(host).items():
        if row.get("installed") and belongs(host, "driver", name) and driver_part(row["installed"]):
            members.setdefault(name, str(row["installed"]))
    _kept, free = by_hold(host, members)
    moves = []
    for name in free:
        row = policy(host).get(name) or {}
        have, candidate = row.get("installed"), row.get("candidate")
        if have and candidate and driver_part(candidate) and differs(driver_part(have), driver_part(candidate)):
            moves.append((name, str(have), str(candidate)))
    if not moves:
        return
    name, have, candidate = moves[0]
    was, will = origins(host, name, have), origins(host, name, candidate)
    foreign = bool(was and will and not set(was) & set(will))
    shown = [evidence("apt_policy", f"{one}: Installed: {old} Candidate: {new}") for one, old, new in moves[:3]]
    shown += [evidence("apt_policy", f"{name} {candidate} from {will[0]}")] if will else []
    text = f"the next upgrade moves {name} {driver_part(have)} -> {driver_part(candidate)}"
    if foreign:
        yield Hit(f"{text}, from another origin ({was[0]} -> {will[0]})", shown, have=have, candidate=candidate)
    else:
        yield Hit(text, shown, severity="warn", say="same_origin", have=have, candidate=candidate)


@host_rule("packages.mixed_origins")
def mixed_origins(host: Host) -> Iterator[Hit]:
    """Parts of one driver from two repositories."""
    found: Dict[str, str] = {}
    for name in driver_packages(host):
        origin = origins(host, name, host.dpkg.get(name))
        # A version that two repositories offer says nothing about where it came from.
        if len(origin) == 1:
            found.setdefault(origin[0], name)
    if len(found) > 1:
        shown = [
            evidence("apt_policy", f"{name} {host.dpkg[name]} from {origin}") for origin, name in sorted(found.items())
        ]
        yield Hit(f"the driver family comes from {listed(sorted(found))}", shown)


@host_rule("packages.half_configured")
def half_configured(host: Host) -> Iterator[Hit]:
    """States in which every later apt call fails. `rc` is removed, and held back is not broken."""
    broken = []
    for row in host.get("packages", "dpkg_entries") or []:
        state = str(row.get("state") or "")
        if (len(state) >= 2 and state[1] in "UFHWtT") or state[2:3] == "R":
            broken.append(row)
    if not broken:
        return
    names = {
        "U": "unpacked only",
        "F": "half configured",
        "H": "half installed",
        "W": "waits for a trigger",
        "t": "trigger pending",
    }
    waiting = all(row["state"][1] in "WtT" for row in broken)
    words = [f"{row['name']} {names.get(row['state'][1], 'needs reinstallation')}" for row in broken]
    shown = [evidence("dpkg", f"{row['state']} {row['name']} {row['version']}") for row in broken[:6]]
    log = host.get("packages", "dkms_log")
    if log:
        shown += [evidence("dkms_log", line) for line in str(log).splitlines() if re.search(r"\berror\b", line, re.I)][
            :1
        ]
    yield Hit(listed(words), shown, severity="warn" if waiting else None, names=" ".join(row["name"] for row in broken))


@host_rule("packages.companion_version")
def companion_version(host: Host) -> Iterator[Hit]:
    """Packages that must equal the driver in all three components, and parts of the driver that moved alone."""
    own = package_driver(host)
    have = library(host) or ((own[1], "dpkg" if own[0] in host.dpkg else "rpm") if own else None)
    if not have:
        return
    odd = []
    for name, version in driver_packages(host).items():
        if (
            belongs(host, "precompiled", name)
            or belongs(host, "precompiled_meta", name)
            or belongs(host, "fabric_manager", name)
        ):
            continue
        strict = (
            belongs(host, "exactly_driver", name) or belongs(host, "driver_itself", name) or belongs(host, "dkms", name)
        )
        if strict and differs(driver_part(version), have[0]):
            odd.append((name, version))
    if odd:
        shown = [evidence("dpkg" if name in host.dpkg else "rpm", f"{name} {version}") for name, version in odd[:6]]
        shown.append(evidence(have[1], f"driver libraries {have[0]}"))
        text = listed([f"{name} {upstream(version)}" for name, version in odd])
        yield Hit(
            f"{text}: not the driver's version {have[0]}",
            shown,
            driver=have[0],
            names=" ".join(name for name, _version in odd),
        )


@host_rule("packages.apt_busy")
def apt_busy(host: Host) -> Iterator[Hit]:
    """The node's own first upgrade is running."""
    for name in (
        "apt-daily-upgrade",
        "apt-daily",
        "unattended-upgrades-run",
        "cloud-final",
        "cloud-init",
        "dnf-automatic-install",
    ):
        unit = host.unit(name)
        if unit and unit.get("active") == "activating":
            yield Hit(
                f"{name}.service is running: it holds the package manager's lock", [host.unit_evidence(name)], unit=name
            )
            return


@host_rule("sources.conflicting_keys")
def conflicting_keys(host: Host) -> Iterator[Hit]:
    """One repository in two entries with different keys: apt refuses to read anything."""
    seen: Dict[Tuple[str, str], Tuple[str, str]] = {}
    for row in host.get("packages", "sources") or []:
        if row.get("enabled") is False or "deb" not in (row.get("types") or ["deb"]):
            continue
        key = str(row.get("signed_by") or "")
        for uri in row.get("uris") or []:
            for suite in row.get("suites") or [""]:
                place = (_address(uri), str(suite).strip("/"))
                before = seen.setdefault(place, (key, str(row.get("file"))))
                if before[0] != key:
                    shown = [
                        evidence("apt_sources", f"{before[1]}: signed-by={before[0] or 'none'}"),
                        evidence("apt_sources", f"{row.get('file')}: {row.get('raw')}"),
                    ]
                    old, new = (before[1], str(row.get("file"))) if not before[0] else (str(row.get("file")), before[1])
                    yield Hit(
                        f"{place[0]} is listed twice with different keys ({before[1]} and {row.get('file')})",
                        shown,
                        remove=old,
                        keep=new,
                    )
                    return


def _address(uri: object) -> str:
    return re.sub(r"^https?://", "", str(uri)).rstrip("/").lower()


@host_rule("sources.plain_http")
def plain_http(host: Host) -> Iterator[Hit]:
    pattern = str(host.fact("rules", "https_only") or "")
    for row in host.get("packages", "sources") or []:
        for uri in row.get("uris") or []:
            if pattern and row.get("enabled") is not False and re.match(pattern, str(uri)):
                yield Hit(
                    f"{row.get('file')} reads NVIDIA's repository over http",
                    [evidence("apt_sources", row.get("raw"))],
                    file=row.get("file"),
                )
                return


@host_rule("sources.trusted_unsigned")
def trusted_unsigned(host: Host) -> Iterator[Hit]:
    rows = [
        row for row in host.get("packages", "sources") or [] if row.get("trusted") and row.get("enabled") is not False
    ]
    if rows:
        yield Hit(
            f"{rows[0].get('file')} takes packages without a signature",
            [evidence("apt_sources", row.get("raw")) for row in rows[:3]],
            file=rows[0].get("file"),
        )
