#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/report.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write the report of a run and say its verdict
version_added: 0.1.0
description:
  - Builds one report over all hosts of the inventory from what earlier plays left in their variables,
    checks it against C(data/schemas/report.schema.json), and writes C(report.json), C(report.html) and
    C(report.xml) (JUnit) into a new directory named by the time in UTC. Older reports are kept. The link
    C(latest) beside them points to the newest.
  - Prints the findings that ask for something, the worst first. The verdict and the path of the report are in
    RV(ignore:msg); the callback P(trainrig.gpu.progress#callback) prints them after the play recap, as the last lines.
  - Fails on the verdicts in O(fail_on), after the report is written, so that the run exits non-zero.
  - Never reports C(changed), because a report on the controller is no change of a node.
options:
  directory:
    description: Where reports are kept. The default is C(reports/<name of the inventory>) under the current directory.
    type: path
  phase:
    description: What ran. Verification is expected after V(site) and V(verify) only.
    type: str
    choices: [site, verify, plan, preflight]
    default: site
  hosts:
    description:
      - What is known of each host, by its name. When left out it is read from the variables of every host of the
        inventory, namely C(trainrig_observation), C(trainrig_plan), C(trainrig_findings), C(trainrig_failures),
        C(verify_findings), C(verify_measurements), C(verify_versions), C(trainrig_carried), C(trainrig_profile),
        C(trainrig_prefix), C(trainrig_python), C(trainrig_expected) and C(verify_left_out).
      - A host without an observation counts as unreachable.
      - Keys of a host are C(state) (ok, failed, unreachable or deferred; derived when left out), C(observation),
        C(plan), C(applied), C(findings), C(failures), C(measurements), C(versions), C(carried), C(profile), C(prefix),
        C(python), C(pool), C(private_address), C(expected) and C(left_out).
    type: dict
  lock_digest:
    description:
      - Digest of the lock that was applied. The default is C(trainrig_lock_digest) of the first host that has it.
    type: str
  started:
    description: When the run began, such as V(2026-11-30T09:30:00Z). The default is C(trainrig_started), or now.
    type: str
  baseline:
    description:
      - V(compare) holds what was measured to C(verify_baseline.yml) beside the inventory, where there is one. A record
        that cannot be read fails the task after the report is written.
      - V(record) writes what passed into that record, each collective at its largest size, in place of the rows of the
        same hosts and job; rows of others stay. Nothing is recorded when the verdict is neither pass nor warn, nor in
        check mode.
    type: str
    choices: [compare, record]
    default: compare
  fail_on:
    description: Verdicts on which the task fails.
    type: list
    elements: str
    choices: [pass, warn, fail, refuse, incomplete]
    default: [fail, refuse, incomplete]
attributes:
  check_mode:
    description: The report is built, checked and said, but not written; an incomplete verification does not fail.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Write the report and say the verdict
  trainrig.gpu.report:
    phase: site

- name: Keep reports elsewhere, and go on whatever they say
  trainrig.gpu.report:
    directory: /srv/reports/prod
    fail_on: []
"""

RETURN = r"""
verdict:
  description: pass, warn, fail, refuse or incomplete.
  type: str
  returned: always
reason:
  description: Why, in words; empty when there is nothing to say.
  type: str
  returned: always
report:
  description: Path of report.html; none in check mode, and none where it could not be written.
  type: str
  returned: always
trouble:
  description: Why the report could not be written, and what to do; none when it was. The task then fails.
  type: str
  returned: always
directory:
  description: The directory of this report; none in check mode.
  type: str
  returned: always
paths:
  description: Paths of the three files by their kind (json, html, xml).
  type: dict
  returned: always
"""
