"""make site killed at moments spread over a measured run: the next run converges, with no repair by hand."""

import os
import random
import shutil

import pytest

from tests.support.checkout import Checkout
from tests.support.kills import WAYS, killed_run, measured_run, moments

COUNT = int(os.environ.get("TRAINRIG_KILLS", "10"))
SEED = int(os.environ.get("TRAINRIG_SEED", random.SystemRandom().randrange(10**6)))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    options = "-e pytorch_compile_bytecode=never"  # which would fill half of the time, always the same step
    checkout = Checkout.fresh(tmp_path_factory.mktemp("kills"), options=options)
    checkout.run("tools/setup", "controller").ok()
    return checkout


def test_every_killed_run_converges_when_run_again(checkout, capsys):
    duration = measured_run(checkout)
    with capsys.disabled():
        print(f"\nseed {SEED} (TRAINRIG_SEED), one run {duration:.0f} s, {COUNT} kills (TRAINRIG_KILLS)")
    for number, moment in enumerate(moments(COUNT, duration, SEED)):
        way = WAYS[number % len(WAYS)]
        shutil.rmtree(checkout.prefix, ignore_errors=True)
        hit = killed_run(checkout, moment, way)
        with capsys.disabled():
            print(f"  {way} after {moment:.1f} s{'' if hit else ' (the run had ended)'}")
        again = checkout.make("site").ok()
        assert checkout.report()["verdict"] == "pass", again.output
        assert "Nothing to do" in checkout.make("plan", "-e strict=true").ok().output
        environments = list((checkout.prefix / "envs").iterdir())
        assert len([path for path in environments if path.is_dir() and not path.name.startswith(".")]) <= 2, (
            environments
        )
