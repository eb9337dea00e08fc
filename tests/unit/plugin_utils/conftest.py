"""Simulated indexes on this machine, and nothing of this machine's settings."""

from __future__ import annotations

import os

import pytest

from tests.support.simulated_index import SimulatedIndex


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Makes simulated indexes; all are closed at the end."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    opened = []

    def make(directory, kind=SimulatedIndex, **how):
        opened.append(kind(directory, **how))
        return opened[-1]

    yield make
    for index in opened:
        index.close()
