"""Which browser this machine has to open a report in."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    """The path of one, None without any."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    return None if found() else f"no browser: none of {', '.join(NAMES)} is installed"
