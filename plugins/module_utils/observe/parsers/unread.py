"""Lines that a parser could not read: few are named, the rest is counted, and nothing read at all is said."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Reading

_NAMED = 3
_WIDTH = 120


class Unread:
    """Collects the unread lines of one reading; `close` turns them into its notes."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._count = 0

    def add(self, line: str) -> None:
        if not line.strip():
            return
        self._count += 1
        if self._count <= _NAMED:
            self._reading.note(f"cannot be read: {line.strip()[:_WIDTH]}")

    def close(self, found: bool) -> bool:
        """Whether the probe answered: something was found, or it ran and there was nothing to say.

        Text of which no line could be read makes the whole probe unreadable; a failed tool that
        said nothing is no answer either, and its facts stay unknown.
        """
        if self._count > _NAMED:
            self._reading.note(f"{self._count - _NAMED} more lines cannot be read")
        if found:
            return True
        if self._count:
            self._reading.unreadable("no line is what this probe prints")
            return False
        return self._reading.rc == 0
