"""What DKMS has built, its last failed build, and whether Secure Boot checks modules."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw

# `nvidia/570.1, 6.8.0-45-generic, x86_64: installed`; before DKMS 3 `nvidia, 470.2, 5.4.0-42-generic, x86_64: ...`.
_STATUS = re.compile(
    r"(?P<module>[^\s,/:]{1,100})(?:/|, *)(?P<version>[^\s,:]{1,100})"
    r"(?:, *(?P<kernel>[^\s,:]{1,100}), *(?P<arch>[^\s,:]{1,40}))?: *(?P<state>[a-z-]{1,20})(?P<rest>.*)$"
)
#: The end of a build log is what says why it failed.
_LOG_LIMIT = 32 * 1024


def dkms(reading: Reading) -> Facts:
    """`dkms status`, old and new form."""
    found: list[dict[str, Any]] = []
    unread = Unread(reading)
    for line in reading.lines:
        match = _STATUS.match(line.strip())
        if not match:
            unread.add(line)
            continue
        entry: dict[str, Any] = {key: match[key] for key in ("module", "version", "kernel", "arch", "state")}
        found.append({**entry, "warning": match["rest"].strip() or None, "raw": raw(line)})
    return {"packages.dkms": found} if unread.close(bool(found)) else {}


def dkms_log(reading: Reading) -> Facts:
    text = reading.text.strip("\n")
    return {"packages.dkms_log": text[-_LOG_LIMIT:]} if text.strip() else {}


def secure_boot(reading: Reading) -> Facts:
    """`mokutil --sb-state`: does the kernel refuse modules without a known signature?"""
    # Without EFI mokutil says so on standard error.
    said = [line.strip() for line in [*reading.lines, *reading.err.split("\n")] if line.strip()]
    text = " ".join(said).lower()
    answer: bool | None = None
    if "validation is disabled in shim" in text:
        # The firmware checks, but shim tells the kernel not to: an unsigned module loads.
        answer = False
        reading.note("enabled in the firmware, validation disabled in shim: modules are not checked")
    elif "secureboot enabled" in text:
        answer = True
    elif re.search(r"secureboot disabled|efi variables are not supported|doesn't support secure boot", text):
        answer = False
    elif said:
        reading.unreadable("not an answer of mokutil --sb-state")
    return {"boot.secure_boot": answer, "boot.secure_boot_raw": raw(" / ".join(said)) or None}
