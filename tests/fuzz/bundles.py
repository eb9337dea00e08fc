"""Fuzz of observe and diagnose: mutated bundles give an Observation and findings, never an exception, never a hang.

    tests/fuzz/bundles.py --count 20000 [--seed N]

Texts of the fixture bundles are cut, spliced, swapped between probes, sprinkled with bytes. The seed is printed; a
failing bundle is kept in a directory that is named.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.trainrig.gpu.plugins.action.diagnose import facts  # noqa: E402
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import engine  # noqa: E402
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import (  # noqa: E402
    build,
    enrich,
    probes,
    registry,
    source,
)

DATA = facts({})
#: A declaration that makes rules look which are silent without one.
STACK = {"driver": "580", "pytorch": "2.13.0", "variant": "cu130", "accelerator": "nvidia", "fabric": "roce", "gpus": 8}

CASES = ROOT / "tests" / "cases" / "observe"
#: One bundle takes milliseconds; this much is a hang, even on a busy machine.
SLOW_S = 20.0
ODD = (
    "",
    "\x00",
    "\x1b[31m",
    "N/A",
    "[N/A]",
    "ERR!",
    "GPU is lost",
    "-1",
    "9" * 40,
    "\ufffd",
    "\u2028",
    "<",
    "]]>",
    "{",
    "[" * 500,
)


def texts() -> dict[str, list[str]]:
    """Every fixture's text of each probe, and the recorded standard errors as texts of their own."""
    found: dict[str, list[str]] = {}
    for directory in sorted(CASES.glob("*/bundle")):
        for name, output in source.BundleSource(directory).read(probes.table().values()).items():
            found.setdefault(name, []).append(output.text)
    return found


def mutated(text: str, pool: list[str], chance: random.Random) -> str:
    """One of the ways in which real output goes wrong, or none that was seen yet."""
    kind = chance.randrange(8)
    at = chance.randrange(len(text) + 1)
    if kind == 0:
        return text[:at]
    if kind == 1:
        other = chance.choice(pool)
        return text[:at] + other[chance.randrange(len(other) + 1) :]
    if kind == 2:
        lines = text.split("\n")
        chance.shuffle(lines)
        return "\n".join(lines)
    if kind == 3:
        return (
            text[:at]
            + "".join(chr(chance.choice((chance.randrange(256), chance.randrange(0xD7FF)))) for _ in range(40))
            + text[at:]
        )
    if kind == 4:
        return text[:at] + chance.choice(ODD) + text[min(len(text), at + chance.randrange(30)) :]
    if kind == 5:
        words = text.split(" ")
        words[chance.randrange(len(words))] = chance.choice(ODD)
        return " ".join(words)
    if kind == 6:
        begin, end = sorted((at, chance.randrange(len(text) + 1)))
        return text[:end] + text[begin:end] * chance.randrange(1, 4) + text[end:]
    return chance.choice(pool)


def bundle(known: dict[str, list[str]], chance: random.Random) -> dict[str, source.Output]:
    pool = [text for group in known.values() for text in group if text] or ["x"]
    outputs = {}
    for name in probes.table():
        if chance.random() < 0.5:
            continue
        text = chance.choice(known.get(name) or pool)
        for _ in range(chance.choice((0, 1, 1, 2))):
            text = mutated(text, pool, chance)[:400_000]
        outputs[name] = source.Output(
            text, chance.choice((0, 0, 0, 1, 124)), chance.choice(("", "", "permission denied\n"))
        )
    return outputs


def judge(observation: dict[str, Any]) -> list[str]:
    """Rules that did not understand the Observation. Findings must be JSON in any case."""
    fleet = {"node": {"observation": enrich.enrich(observation, DATA["gpus"])}}
    findings = engine.diagnose(STACK, None, fleet, DATA, "2026-11-30")
    json.dumps(findings)
    return [f"{one['summary']}: {one['evidence'][0]['text']}" for one in findings if one["rule"] == "diagnose.unjudged"]


def parse(outputs: dict[str, source.Output]) -> list[str]:
    """Probes whose parser raised and rules that did; the Observation must be JSON and whole in any case."""
    observation = build.build(outputs)
    json.dumps(observation)
    missing = set(build.empty()) - set(observation)
    if missing:
        raise AssertionError(f"not in the observation: {sorted(missing)}")
    return [
        f"{name}: {' '.join(note.split()[:4])}"
        for name, state in observation["probes"].items()
        for note in state["notes"]
        if note.startswith(build.GUARDED)
    ] + judge(dict(observation))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=20000)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {given.count} bundles, {len(registry.PARSERS)} parsers", flush=True)
    known = texts()
    caught: dict[str, int] = {}
    for number in range(given.count):
        outputs = bundle(known, random.Random(f"{seed}/{number}"))
        begun = time.monotonic()
        try:
            raised = parse(outputs)
        except Exception as error:
            return _failed(outputs, seed, number, f"{type(error).__name__}: {error}")
        if time.monotonic() - begun > SLOW_S:
            return _failed(outputs, seed, number, f"took {time.monotonic() - begun:.0f} s")
        for text in raised:
            caught[text] = caught.get(text, 0) + 1
    # The guard held, but a parser or rule should not need it: each of these is a defect of one.
    for text, times in sorted(caught.items(), key=lambda item: -item[1]):
        print(f"raised {times} times: {text}")
    print(f"{given.count} bundles: no exception came out, nothing hung; {len(caught)} kinds were caught by the guard")
    return 1 if caught else 0


def _failed(outputs: dict[str, source.Output], seed: int, number: int, why: str) -> int:
    directory = tempfile.mkdtemp(prefix="trainrig-fuzz-")
    source.write_bundle(directory, outputs)
    print(f"bundle {number} of seed {seed}: {why}; kept in {directory}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
