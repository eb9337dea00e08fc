"""What the contract tests read of the tree: files, imports, string literals."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "ansible_collections.trainrig.gpu.plugins."
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


@lru_cache(maxsize=None)
def plugin_files() -> list[Path]:
    return sorted((ROOT / "plugins").rglob("*.py"))


@lru_cache(maxsize=None)
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@lru_cache(maxsize=None)
def imports(path: Path) -> set[str]:
    """Every module this file imports, by full name; `from a import b` counts as a and a.b."""
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def own_files(names: set[str]) -> set[Path]:
    """The plugin files that these module names stand for."""
    files = {
        ROOT / "plugins" / (name[len(PREFIX) :].replace(".", "/") + ".py") for name in names if name.startswith(PREFIX)
    }
    return {path for path in files if path.is_file()}


def closure(path: Path) -> set[Path]:
    """This file and every plugin file it imports, directly or not."""
    seen: set[Path] = set()
    todo = [path]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += own_files(imports(current))
    return seen


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a file that are code, not documentation: (line, text)."""
    tree = parse(path)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):  # DOCUMENTATION, EXAMPLES and RETURN are text for people
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id.isupper() for t in node.targets):
            names = {t.id for t in node.targets if isinstance(t, ast.Name)}
            if names & {"DOCUMENTATION", "EXAMPLES", "RETURN"}:
                documentation.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def task_files(role: Path) -> list[Path]:
    return sorted((role / "tasks").glob("*.yml")) + sorted((role / "handlers").glob("*.yml"))


def tasks(path: Path) -> Iterator[dict[str, object]]:
    """Every task of a file, those inside blocks too."""
    todo = list(yaml.safe_load(path.read_text(encoding="utf-8")) or [])
    while todo:
        task = todo.pop(0)
        nested = [task[key] for key in ("block", "rescue", "always") if key in task]
        if nested:
            todo = [inner for part in nested for inner in part] + todo
        yield task
