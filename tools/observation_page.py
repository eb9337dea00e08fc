"""Writes docs/observation.md: the probes as the table has them, the names as the shape has them.

tools/observation_page.py          write the page
tools/observation_page.py --check  say whether it is what would be written
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "observation.md"
SHAPE = [ROOT / "plugins" / "module_utils" / "observe" / name for name in ("schema.py", "schema_nvidia.py")]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import probes  # noqa: E402

OPENING = """\
# Observation

One look at a node, as one document: what the operating system, the driver, the GPUs, the network adapters, the
packages and the environment are right now. Nothing is judged here and nothing is changed; see
[rules.md](rules.md) for what is made of it.

    ansible all -i inventories/prod -m trainrig.gpu.observe                      # live
    ansible all -i inventories/prod -m trainrig.gpu.observe -a "save=bundles/{{ inventory_hostname }}"
    ansible localhost -m trainrig.gpu.observe -a "bundle=bundles/node-a"         # later, elsewhere, without the node

A look takes as long as its slowest probe; several run at a time, each with its own bound. A tool that hangs costs one
time-out and is killed with all that it started. Root is not needed; a probe that root would make richer says so.

## Bundles

A bundle is a directory with one file per probe, named by the probe's id, that holds what the tool printed. `<id>.rc`
holds an exit status that is not zero, `<id>.err` the standard error, where there was any. A probe that could not run
has no file. A bundle can be made by hand, and the same observation is read from it as was seen on the node.

A probe with several sources has sections, each opened by the line that `head` prints for several files,
`==> NAME <==`, with ` exit N` behind it where the command failed. NAME is the path or the command.

Names and passwords in addresses (`https://user:password@host`) are left out when a node is looked at.

## Status of a probe

| status | means |
| --- | --- |
| `ok` | it answered, and the answer was read |
| `absent` | it could not run here: no such tool, no such file. That is not an error |
| `timeout` | it did not answer in time; what it printed until then was read |
| `error` | it ran and failed; its words are in `notes` |
| `unreadable` | it answered, but not in a way that is known; nothing is guessed |

`notes` are for people. Unknown values are `null`, never 0 or an empty text; a list is empty only when its probe
answered and there was nothing. Units are in the names.
"""


def probe_rows() -> Iterator[str]:
    yield "| probe | asks | with root also |"
    yield "| --- | --- | --- |"
    for probe in probes.table(probes.Options(python="PYTHON", hostname="NAME")).values():
        asked = "; ".join(f"`{text}`" for part in probe.parts for text in questions(part))
        yield f"| `{probe.id}` | {asked} | {probe.root_adds or ''} |"


def questions(part: probes.Part) -> Iterator[str]:
    if isinstance(part, probes.Files):
        yield from part.patterns
    elif isinstance(part, probes.Names):
        yield f"ls -1 {part.directory}"
    elif part.name:
        yield part.name
    elif part.argv[:2] == ("sh", "-c"):
        yield "a small script"
    elif "-c" in part.argv:
        yield f"{part.argv[0]} (a script)"
    else:
        line = " ".join(part.argv)
        yield (line if len(line) <= 100 else f"{line[:97]}...").replace("|", "\\|")


def shape_blocks() -> Iterator[str]:
    """The TypedDicts, the whole first and then its parts in the order of their files."""
    classes = [found for path in SHAPE for found in definitions(path)]
    classes.sort(key=lambda found: not found[0].startswith("class Observation"))
    for lines in classes:
        yield "\n".join(lines)


def definitions(path: Path) -> Iterator[list[str]]:
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield text.split("\n")[node.lineno - 1 : node.end_lineno]


def page() -> str:
    table = "\n".join(probe_rows())
    shape = "\n\n\n".join(shape_blocks())
    return f"{OPENING}\n## Probes\n\n{table}\n\n## Names\n\n```python\n{shape}\n```\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
        print("docs/observation.md is up to date" if same else "docs/observation.md is out of date: run make docs")
        return 0 if same else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
