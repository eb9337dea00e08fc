"""Simulated repositories for what is tested with real apt. Those of the session are shared: change one of your own."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import simulated_apt_root
from tests.support.simulated_apt_root import SimulatedAptRoot
from tests.support.simulated_nvidia import simulated_nvidia, simulated_ubuntu
from tests.support.simulated_repository import SigningKey, SimulatedRepository


@pytest.fixture(scope="session", autouse=True)
def real_apt() -> None:
    absent = simulated_apt_root.missing()
    if absent:
        pytest.skip(absent)


@pytest.fixture(scope="session")
def signing_key() -> Iterator[SigningKey]:
    key = SigningKey()
    yield key
    key.close()


@pytest.fixture(scope="session")
def simulated_nvidia_repository(
    tmp_path_factory: pytest.TempPathFactory, signing_key: SigningKey
) -> Iterator[Callable[[str], SimulatedRepository]]:
    """platform -> NVIDIA's repositories with that platform: simulated_nvidia_repository("ubuntu2404")."""
    made: dict[str, SimulatedRepository] = {}

    def get(platform: str) -> SimulatedRepository:
        if platform not in made:
            directory = tmp_path_factory.mktemp("nvidia") / platform
            made[platform] = simulated_nvidia(directory, (platform,), key=signing_key)
        return made[platform]

    yield get
    for repository in made.values():
        repository.close()


@pytest.fixture(scope="session")
def simulated_ubuntu_repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedRepository]:
    """Ubuntu's archive, jammy and noble, with a key of its own."""
    with simulated_ubuntu(tmp_path_factory.mktemp("ubuntu") / "archive") as repository:
        yield repository


@pytest.fixture
def own_nvidia_repository(tmp_path: Path, signing_key: SigningKey) -> Iterator[SimulatedRepository]:
    """NVIDIA's repository for ubuntu2404 that a test may change."""
    with simulated_nvidia(tmp_path / "own-nvidia", key=signing_key) as repository:
        yield repository


@pytest.fixture
def apt_root(tmp_path: Path) -> Callable[..., SimulatedAptRoot]:
    """(source line...) -> an updated apt root with these sources."""

    def make(*sources: str, update: bool = True) -> SimulatedAptRoot:
        root = SimulatedAptRoot(tmp_path / f"apt-{len(list(tmp_path.glob('apt-*')))}", list(sources))
        if update:
            root.update()
        return root

    return make
