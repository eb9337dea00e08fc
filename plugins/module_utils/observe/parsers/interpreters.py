"""Which Pythons a node has: one `PATH VERSION` a line."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading

_LINE = re.compile(r"(/\S+) (\d+\.\d+\.\d+)")


def interpreters(reading: Reading) -> Facts:
    found = [match for line in reading.lines if (match := _LINE.fullmatch(line.strip()))]
    return {"interpreters": [{"path": match[1], "version": match[2]} for match in found]}
