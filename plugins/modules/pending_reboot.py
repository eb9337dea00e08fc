#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps the record of a reboot that a change waits for, and says whether it still stands."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pending_reboot
short_description: Record on the node that a change takes effect with the next boot
version_added: 0.1.0
description:
  - Keeps C(pending_reboot.json) on the node, with the reasons and the boot in which they were recorded.
  - A record of another boot is void, since the machine was booted after it. It counts as absent and is removed.
  - Each write goes to a new file, is flushed to the disk and renamed over the old one.
options:
  path:
    description: The record's path, in the directory of the manifest. Its directory is created when it is missing.
    type: path
    default: /etc/trainrig/pending_reboot.json
  state:
    description:
      - V(present) adds O(reasons) to the record of this boot.
      - V(absent) removes the record, whatever boot it is of.
      - V(checked) only removes a void record, and says what stands and who uses the machine.
    type: str
    choices: [present, absent, checked]
    default: present
  reasons:
    description: What waits for the reboot, one sentence each.
    type: list
    elements: str
    default: []
  daemons:
    description: With O(state=checked), beginnings of the names of processes whose use of a GPU holds up no reboot.
    type: list
    elements: str
    default: []
  jobs:
    description: With O(state=checked), beginnings of the command lines of processes that mean a scheduler's job.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Says what it would write or remove and does neither.
    support: full
  diff_mode:
    description: Shows the reasons before and after.
    support: full
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Note that the new driver takes effect with the next boot
  trainrig.gpu.pending_reboot:
    path: "{{ trainrig_manifest | dirname }}/pending_reboot.json"
    reasons:
      - "driver: the loaded module is not the installed one"

- name: See whether a reboot is pending
  trainrig.gpu.pending_reboot:
    state: checked
"""

RETURN = r"""
pending:
  description: Whether a record of this boot is there now.
  type: bool
  returned: success
reasons:
  description: What waits for the reboot; empty when nothing does.
  type: list
  elements: str
  returned: success
boot_id:
  description: The present boot of the node.
  type: str
  returned: success
busy:
  description: Who uses a GPU or runs as a scheduler's job, one text each. Other users' processes are seen by root only.
  type: list
  elements: str
  returned: O(state=checked)
"""

import datetime
import glob
import json
import os
import re
import tempfile

from ansible.module_utils.basic import AnsibleModule

SCHEMA = 1
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PROC = "/proc"
#: The device file of one GPU. Those of the driver as a whole (nvidiactl, nvidia-uvm) are open beside it.
GPU = re.compile(r"/dev/nvidia[0-9]+$")
#: A busy node has hundreds of processes; a person reads this many.
SHOWN = 10


def read(path, boot_id):
    """(whether anything is there, its reasons where it is of this boot). What cannot be read is void."""
    try:
        with open(path, encoding="utf-8") as stream:
            record = json.load(stream)
    except FileNotFoundError:
        return False, []
    except (ValueError, RecursionError):
        return True, []
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or record.get("boot_id") != boot_id:
        return True, []
    reasons = record.get("reasons")
    return True, [str(reason) for reason in reasons] if isinstance(reasons, list) else []


def write(path, record):
    """Replace the record in one step that survives a power cut."""
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".pending_reboot-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(record, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    parent = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def busy(daemons, jobs):
    """Processes that hold a GPU's device file or are a scheduler's. nvidia-smi knows none where versions differ."""
    found = []
    for directory in sorted(glob.glob(PROC + "/[0-9]*"), key=lambda path: int(os.path.basename(path))):
        pid = os.path.basename(directory)
        try:
            with open(directory + "/cmdline", "rb") as stream:
                line = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            with open(directory + "/comm", encoding="utf-8", errors="replace") as stream:
                name = stream.read().strip()
            held = set()
            for link in glob.glob(directory + "/fd/*"):
                try:
                    held.add(os.readlink(link))
                except OSError:  # closed just now
                    continue
        except OSError:  # it ended just now
            continue
        gpus = sorted(target for target in held if GPU.match(target))
        if any(line.startswith(job) for job in jobs):
            found.append(f"pid {pid} {line[:80]}")
        # The kernel cuts the name off after 15 characters.
        elif gpus and not any(name.startswith(daemon[:15]) for daemon in daemons):
            found.append(f"pid {pid} {name} on {', '.join(gpus)}")
    return found[:SHOWN] + ([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/trainrig/pending_reboot.json"},
            "state": {"type": "str", "choices": ["present", "absent", "checked"], "default": "present"},
            "reasons": {"type": "list", "elements": "str", "default": []},
            "daemons": {"type": "list", "elements": "str", "default": []},
            "jobs": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[("state", "present", ["reasons"])],
        supports_check_mode=True,
    )
    path, state = module.params["path"], module.params["state"]
    try:
        with open(BOOT_ID, encoding="ascii") as stream:
            boot_id = stream.read().strip()
        there, before = read(path, boot_id)
        after = {"present": [*before, *module.params["reasons"]], "absent": [], "checked": before}[state]
        after = list(dict.fromkeys(after))
        changed = after != before or (there and not after)
        if changed and not module.check_mode:
            if after:
                made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
                write(path, {"schema": SCHEMA, "boot_id": boot_id, "reasons": after, "at": made})
            else:
                os.unlink(path)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or path}: {error.strerror}: the record of a pending reboot cannot be kept. "
            "To fix it: run as a user that may write there, or choose another trainrig_prefix."
        )
    result = {"changed": changed, "pending": bool(after), "reasons": after, "boot_id": boot_id}
    if state == "checked":
        result["busy"] = busy(module.params["daemons"], module.params["jobs"])
    shown = [f"pending reboot: {'; '.join(reasons) or 'none'}\n" for reasons in (before, after)]
    result["diff"] = {"before": shown[0], "after": shown[1]}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
