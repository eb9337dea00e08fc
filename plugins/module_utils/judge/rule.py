"""What a rule of verification is made of."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple

LAYER = "verify"


class Rule(NamedTuple):
    """One rule. ``cause`` and ``next`` may name {fields} that the finding fills in."""

    severity: str
    action: str
    cause: str
    next: str
    source: str
    layer: str = LAYER
