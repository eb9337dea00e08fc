"""Reads the rules of data/coherence.yml: which rows each one looks at, and what it says of them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.predicates import holds

#: Rows that are chosen; every other row is given.
CHOSEN = ("driver", "build", "tensorflow", "python", "cuda")
#: Rows of which there are several: a rule that reads one is asked for each.
EACH = ("gpu", "bad", "issue")
_PATH = re.compile(r"(driver|build|tensorflow|python|cuda|gpu|bad|issue|pool|platform|installed|wish|today)\.[a-z_]+")
_HOLE = re.compile(r"\{([a-z_]+\.[a-z_]+)\}")
Rows = Mapping[str, Mapping[str, Any]]


class Violation(NamedTuple):
    """A rule that does not hold, or of which it is not known whether it does."""

    rule: str
    severity: str  # refuse | warn
    facts: Tuple[str, ...]
    sources: Tuple[str, ...]
    avoid: bool  # another choice is better, where there is one


class Path(NamedTuple):
    """Where a value stands: the row, and its name there."""

    room: str
    name: str


class Condition(NamedTuple):
    value: Any  # a Path, or the value itself
    predicate: str
    operand: Any

    def holds(self, rows: Rows) -> Optional[bool]:
        return holds(self.predicate, _side(self.value, rows), _side(self.operand, rows))


class Rule(NamedTuple):
    name: str
    severity: str
    avoid: bool
    when: Tuple[Condition, ...]
    check: Condition
    facts: Tuple[str, ...]
    sources: Tuple[str, ...]
    unknown: Optional[Mapping[str, Any]]
    reads: FrozenSet[str]
    each: Optional[str]
    wishes: Tuple[str, ...]

    def judge(self, rows: Rows) -> Optional[Violation]:
        """The violation by these rows, or None."""
        for condition in self.when:
            if not condition.holds(rows):
                return None
        answer = self.check.holds(rows)
        if answer:
            return None
        sources = tuple(dict.fromkeys(text for path in self.sources for text in look_up(path, rows) or []))
        if answer is None:
            if not self.unknown or ("when_known" in self.unknown and look_up(self.unknown["when_known"], rows) is None):
                return None
            facts = (filled(self.unknown["text"], rows),)
            return Violation(self.name, "warn", facts, sources, bool(self.unknown.get("avoid")))
        severity = filled(self.severity, rows)
        return Violation(self.name, severity, tuple(filled(fact, rows) for fact in self.facts), sources, self.avoid)


def look_up(path: str, rows: Rows) -> Any:
    room, _dot, name = path.partition(".")
    row = rows.get(room)
    return None if row is None else row.get(name)


def filled(text: str, rows: Rows) -> str:
    """A sentence with its holes filled; lists are listed."""

    def fill(match: Any) -> str:
        value = look_up(match.group(1), rows)
        if isinstance(value, (list, tuple)):
            return ", ".join(map(str, value)) or "none"
        return "unknown" if value is None else str(value)

    return _HOLE.sub(fill, text)


def _side(side: Any, rows: Rows) -> Any:
    if not isinstance(side, Path):
        return side
    row = rows.get(side.room)
    return None if row is None else row.get(side.name)


def _condition(sides: Sequence[Any]) -> Condition:
    value, predicate, operand = sides
    return Condition(_path(value), predicate, _path(operand))


def _path(side: Any) -> Any:
    return Path(*side.split(".")) if isinstance(side, str) and _PATH.fullmatch(side) else side


def compiled(table: Mapping[str, Any]) -> List[Rule]:
    """`table`: content of data/coherence.yml."""
    return [_rule(name, row) for name, row in table["rules"].items()]


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    when = tuple(_condition(condition) for condition in row.get("when", []))
    check = _condition(row["check"])
    unknown = row.get("unknown")
    texts = [row["severity"], *row["facts"], unknown["text"] if unknown else ""]
    paths = [*row["sources"], *(hole for text in texts for hole in _HOLE.findall(text))]
    for condition in (*when, check):
        paths += [".".join(side) for side in (condition.value, condition.operand) if isinstance(side, Path)]
    rooms = {path.partition(".")[0] for path in paths}
    each = next((room for room in EACH if room in rooms), None)
    return Rule(
        name,
        row["severity"],
        bool(row.get("avoid")),
        when,
        check,
        tuple(row["facts"]),
        tuple(row["sources"]),
        unknown,
        frozenset(rooms & set(CHOSEN)),
        each,
        tuple(sorted({path.partition(".")[2] for path in paths if path.startswith("wish.")})),
    )


class Group(NamedTuple):
    """Rules that read the same rows: the chosen ones, and the same wishes."""

    number: int
    reads: FrozenSet[str]
    wishes: Tuple[str, ...]
    rules: Tuple[Rule, ...]


class Book:
    """All rules, and what they said of rows before: most rows are asked about again and again.

    Rows are known by identity, so a book is for rows that live as long as it does and differ in nothing but the wishes.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        groups: Dict[Tuple[FrozenSet[str], Tuple[str, ...]], List[Rule]] = {}
        for rule in rules:
            groups.setdefault((rule.reads, rule.wishes), []).append(rule)
        self._groups = [
            Group(number, reads, wishes, tuple(found)) for number, ((reads, wishes), found) in enumerate(groups.items())
        ]
        self._fitting: Dict[Tuple[Any, ...], List[Group]] = {}
        self.memory: Dict[Tuple[Any, ...], Tuple[Violation, ...]] = {}

    def groups(self, present: Tuple[str, ...], touching: Optional[str]) -> List[Group]:
        """Those that read only what is present, and `touching` among it where that is named."""
        key = (present, touching)
        if key not in self._fitting:
            self._fitting[key] = [
                group
                for group in self._groups
                if group.reads <= frozenset(present) and (touching is None or touching in group.reads)
            ]
        return self._fitting[key]


class Judge:
    """Asks the rules of a book about chosen rows, beside those that are given."""

    def __init__(self, book: Book, given: Rows, several: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._book, self._given, self._several = book, given, several

    def violations(self, chosen: Rows, touching: Optional[str] = None) -> List[Violation]:
        """Every violation by rules that read only these rows; `touching`: by those that read this one."""
        found: List[Violation] = []
        wishes = self._given["wish"]
        memory = self._book.memory
        for group in self._book.groups(tuple(chosen), touching):
            key = (group.number, *[id(chosen[name]) for name in group.reads], *[wishes[name] for name in group.wishes])
            if key not in memory:
                rows = {**self._given, **{name: chosen[name] for name in group.reads}}
                memory[key] = tuple(violation for rule in group.rules for violation in self._each(rule, rows))
            found += memory[key]
        return found

    def _each(self, rule: Rule, rows: Rows) -> List[Violation]:
        many: List[Rows] = [rows]
        if rule.each:
            many = [{**rows, rule.each: row} for row in self._several.get(rule.each, [])]
        return [violation for one in many for violation in [rule.judge(one)] if violation]
