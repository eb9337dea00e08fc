"""One checkout for the whole tier: set up once, then used as a person would, step after step."""

import pytest

from tests.support.checkout import Checkout


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """uv's cache, shared by the runs of this tier so that each wheel is unpacked once."""
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o777)
    return str(directory)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory, cache):
    # Bytecode, which root compiles once for everybody, takes longer than all the rest; tests/controllers has it.
    options = "-e pytorch_compile_bytecode=never"
    return Checkout.fresh(tmp_path_factory.mktemp("site"), variables={"UV_CACHE_DIR": cache}, options=options)


@pytest.fixture(scope="session")
def first_run(checkout):
    """The newcomer's first command, with everything it needs still to be set up."""
    return checkout.make("site")
