"""Finds the most preferred set of driver and software that no rule refuses, or the one that is least refused."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.keys import BY_NAME, GPU_KEYS
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_driver import Drivers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import (
    Data,
    Made,
    Row,
    bad_rows,
    gpu_rows,
    installed_row,
    issue_rows,
    platform_row,
    pool_row,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_software import Software
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rules import Book, Judge, Violation, compiled

Chosen = Dict[str, Row]
_Item = TypeVar("_Item")
#: One refusal outweighs whatever is not known.
_REFUSAL = 1000
#: How many passed-over builds are remembered, to be told.
_TOLD = 3


class Question(NamedTuple):
    """Everything an answer depends on."""

    wishes: Mapping[str, str]
    gpus: Sequence[str]
    platform: str
    installed: Mapping[str, Any]
    today: str


class Found(NamedTuple):
    """A set and what is to be said about it; `refused`: the rules that stand against it."""

    chosen: Chosen
    violations: List[Violation]
    passed_over: List[Tuple[Row, Violation]]

    @property
    def refused(self) -> List[Violation]:
        return [violation for violation in self.violations if violation.severity == "refuse"]


class Stage:
    """What stays the same for all questions about the same nodes with the same accelerator: rows, rules, answers."""

    def __init__(self, question: Question, accelerator: str, data: Data) -> None:
        on_gpus = accelerator == "nvidia"
        installed = installed_row(question.installed)
        platform = platform_row(question.platform, data)
        self.data = data
        self.gpus = gpu_rows(question.gpus, question.installed, data) if on_gpus else []
        self.given: Dict[str, Row] = {
            "pool": pool_row(self.gpus, question.gpus if on_gpus else [], data),
            "platform": platform,
            "installed": installed,
            "today": {"date": question.today},
        }
        self.several: Dict[str, List[Row]] = {
            "gpu": self.gpus,
            "bad": bad_rows(self.gpus, platform, installed, data),
            "issue": issue_rows(self.gpus, data),
        }
        self.made: Made = {}
        self.book = Book(compiled(data["coherence"]))


class Stages:
    """The stage of each accelerator, built when it is first asked for."""

    def __init__(self, question: Question, data: Data) -> None:
        self._question, self._data = question, data
        self._stages: Dict[str, Stage] = {}

    def of(self, accelerator: str) -> Stage:
        if accelerator not in self._stages:
            self._stages[accelerator] = Stage(self._question, accelerator, self._data)
        return self._stages[accelerator]


class Search:
    """One question with its rows and its rules."""

    def __init__(self, question: Question, stages: Stages, near: Optional[Mapping[str, str]] = None) -> None:
        """`near`: values that are given up and to which the answer should stay close."""
        self.declared = question.wishes
        self.question = settled(question)
        wishes, near = self.question.wishes, near or {}
        stage = stages.of(wishes["accelerator"])
        self.gpus, self.several, self.data = stage.gpus, stage.several, stage.data
        self.given: Dict[str, Row] = {**stage.given, "wish": _wish_row(wishes)}
        self._judge = Judge(stage.book, self.given, stage.several)
        software = Software(wishes, self.given, stage.data, stage.made)
        self._drivers = _Kept(Drivers(wishes, self.given, stage.data, stage.made).rows(near.get("driver")))
        self._builds = _Kept(software.builds(near.get("pytorch")))
        self._tensorflows = software.tensorflows(near.get("tensorflow"))
        self._pythons = software.pythons()
        self._passed_over: List[Tuple[Row, Violation]] = []

    def answer(self) -> Optional[Found]:
        """The most preferred set that nothing refuses."""
        software = _Kept(self._software())
        for driver in self._fitting_drivers():
            for chosen in software:
                if not self._across(driver, chosen):
                    return self._found({**chosen, "driver": driver})
        return None

    def _fitting_drivers(self) -> Iterator[Row]:
        """Those that no rule refuses; those that a rule would rather avoid come last."""
        later: List[Row] = []
        for row in self._drivers:
            violations = self._judge.violations({"driver": row})
            if _avoided(violations) and not _refused(violations):
                later.append(row)
            elif not _refused(violations):
                yield row
        yield from later

    def _software(self) -> Iterator[Chosen]:
        """What fits together without a driver; what a rule would rather avoid comes last."""
        later: List[Tuple[int, Chosen]] = []
        for build, toolkit in self._builds:
            chosen: Chosen = {"build": build, "cuda": toolkit}
            violations = self._judge.violations(chosen)
            self._tell(build, violations)
            if _refused(violations):
                continue
            count = _avoided(violations)
            for tensorflow in self._tensorflows:
                whole, more = self._completed({**chosen, "tensorflow": tensorflow})
                if whole and count + more:
                    later.append((count + more, whole))
                elif whole:
                    yield whole
        for _count, whole in sorted(later, key=lambda pair: pair[0]):
            yield whole

    def _completed(self, chosen: Chosen) -> Tuple[Optional[Chosen], int]:
        """With the most preferred Python that fits, and how much a rule would rather avoid in it."""
        violations = self._judge.violations(chosen, touching="tensorflow")
        if not _refused(violations):
            for python in self._pythons:
                whole = {**chosen, "python": python}
                more = self._judge.violations(whole, touching="python")
                if not _refused(more):
                    return whole, _avoided(violations) + _avoided(more)
        return None, 0

    def _tell(self, build: Row, violations: Sequence[Violation]) -> None:
        """Remember why a build is passed over, once a line."""
        against = _refused(violations) or next((one for one in violations if one.avoid), None)
        lines = [row["line"] for row, _violation in self._passed_over]
        if against and len(lines) < _TOLD and build["line"] not in lines:
            self._passed_over.append((build, against))

    def _across(self, driver: Row, chosen: Chosen) -> Optional[Violation]:
        """What refuses a driver for software that is right alone."""
        return _refused(self._judge.violations({**chosen, "driver": driver}, touching="driver"))

    def against_default(self, chosen: Chosen) -> Optional[Violation]:
        """What refuses the default build of the chosen release in its place; None where nothing does."""
        release = chosen["build"]["version"]
        for build, toolkit in self._builds:
            if build["version"] == release and build["default"]:
                instead = {**chosen, "build": build, "cuda": toolkit}
                return _refused(self._judge.violations(instead, touching="build"))
        return None

    def least_refused(self) -> Found:
        """The set that honours the declaration and breaks the fewest rules, the most preferred of these."""
        drivers = _ranked(
            _first_of(self._drivers, lambda row: (row["branch"], row["flavour"])),
            lambda driver: _weight(self._judge.violations({"driver": driver}, touching="driver")),
        )
        software = _ranked(self._conceivable(), lambda chosen: _weight(self._judge.violations(chosen)))
        best, fewest = {**software[0][1], "driver": drivers[0][1]}, None
        for least, driver in drivers:
            for own, chosen in software:
                if fewest is not None and least + own >= fewest:
                    break
                whole = {**chosen, "driver": driver}
                count = own + _weight(self._judge.violations(whole, touching="driver"))
                if fewest is None or count < fewest:
                    best, fewest = whole, count
        return self._found(best)

    def _conceivable(self) -> List[Chosen]:
        found = []
        builds = list(self._builds)
        wishes = self.question.wishes
        if wishes["pytorch"] != "auto" and wishes["variant"] == "auto" and wishes["cuda"] == "auto":
            # What a plain installation gets is what people ask about.
            builds = [pair for pair in builds if pair[0]["default"]] or builds
        for build, toolkit in builds:
            for tensorflow in self._tensorflows:
                some = {"build": build, "cuda": toolkit, "tensorflow": tensorflow}
                whole = ({**some, "python": python} for python in self._pythons)
                found.append(min(whole, key=lambda chosen: _weight(self._judge.violations(chosen, touching="python"))))
        return found

    def _found(self, chosen: Chosen) -> Found:
        violations = _once(self._judge.violations(chosen))
        return Found(chosen, violations, list(self._passed_over))


class _Kept(Generic[_Item]):
    """An iterator that can be gone through several times and works each item out only once."""

    def __init__(self, items: Iterator[_Item]) -> None:
        self._items = items
        self._seen: List[_Item] = []

    def __iter__(self) -> Iterator[_Item]:
        at = 0
        while True:
            if at == len(self._seen):
                try:
                    self._seen.append(next(self._items))
                except StopIteration:
                    return
            yield self._seen[at]
            at += 1


def settled(question: Question) -> Question:
    """What `auto` means for accelerator and origin, which decide which rows there are at all."""
    wishes = dict(question.wishes)
    if wishes["accelerator"] == "auto":
        wishes["accelerator"] = "nvidia" if question.gpus and wishes["variant"] != "cpu" else "cpu"
        if wishes["variant"] not in ("auto", "cpu"):
            wishes["accelerator"] = "nvidia"
    if wishes["origin"] == "auto":
        wishes["origin"] = "nvidia"
    return question._replace(wishes=wishes)


def _wish_row(wishes: Mapping[str, str]) -> Row:
    """Declared values as rules compare them; what is left to choose is not known."""
    row: Row = {key: None if value in ("auto", "wheel") else value for key, value in wishes.items()}
    if row["cuda"]:
        row["cuda"] = ".".join(map(str, numbers(row["cuda"])[:2]))
    row["fabric_manager"] = wishes["fabric_manager"]
    if row["container_toolkit"] == "off":
        row["container_toolkit"] = None
    row["exact_kernel"] = wishes["kernel"] not in BY_NAME["kernel"].words
    row["gpu_keys"] = ", ".join(key for key in GPU_KEYS if wishes[key] not in BY_NAME[key].words)
    return row


def _refused(violations: Iterable[Violation]) -> Optional[Violation]:
    return next((one for one in violations if one.severity == "refuse"), None)


def _avoided(violations: Iterable[Violation]) -> int:
    return sum(one.avoid for one in violations)


def _weight(violations: Iterable[Violation]) -> int:
    """Refusals count; what is not known only decides between equals."""
    return sum(_REFUSAL if one.severity == "refuse" else one.avoid for one in violations)


def _ranked(
    items: Sequence[Dict[str, Any]], count: Callable[[Dict[str, Any]], int]
) -> List[Tuple[int, Dict[str, Any]]]:
    """(count, item), the lowest counts first; the order of equals stays."""
    return sorted(((count(item), item) for item in items), key=lambda pair: pair[0])


def _once(violations: Sequence[Violation]) -> List[Violation]:
    return list({(one.rule, one.facts): one for one in violations}.values())


def _first_of(rows: Iterable[Row], key: Any) -> List[Row]:
    seen: Dict[Any, Row] = {}
    for row in rows:
        seen.setdefault(key(row), row)
    return list(seen.values())
