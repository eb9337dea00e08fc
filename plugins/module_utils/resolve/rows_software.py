"""The PyTorch builds, Pythons, TensorFlows and toolkits a declaration allows, the preferred one first."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import Data, Made, Row, cite
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import offered_variants
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.wanted import matching


def cuda_of(variant: str) -> Optional[str]:
    """cu126 -> 12.6; None for the CPU build."""
    return f"{variant[2:-1]}.{variant[-1]}" if variant != "cpu" else None


class Software:
    """Rows for what goes into the environment, and the toolkit beside it."""

    def __init__(self, wishes: Mapping[str, str], context: Mapping[str, Row], data: Data, made: Made) -> None:
        self._wishes, self._data, self._made = wishes, data, made
        self._today = str(context["today"]["date"])
        self._platform, self._installed = context["platform"], context["installed"]
        self._torch, self._machine = data["torch"], context["platform"]["machine"]

    def builds(self, near: Optional[str] = None) -> Iterator[Tuple[Row, Row]]:
        """Builds, each with its toolkit."""
        releases = self._torch["releases"]
        wish = self._wishes["pytorch"]
        versions = matching(releases, wish)
        near_versions = matching(releases, near) if near else []
        if near_versions:
            lines = [minor(version) for version in sorted(releases, key=numbers)]
            order = list(dict.fromkeys(lines))
            at = order.index(minor(near_versions[0]))
            versions.sort(key=lambda version: abs(order.index(minor(version)) - at))  # of a line the newest first
        for version in versions:
            for variant in self._variants(version):
                build = self._build(version, variant)
                yield build, self._toolkit(build)

    def _variants(self, version: str) -> Sequence[str]:
        """The default build first, then those with newer CUDA, experimental ones last."""
        if self._wishes["variant"] != "auto":
            return [self._wishes["variant"]]
        if self._wishes["accelerator"] == "cpu":
            return ["cpu"]
        line = self._torch["lines"].get(minor(version)) or {}
        default = self._torch["releases"][version]["default"]["variant"]
        offered = dict.fromkeys([default, *[name for name in offered_variants(self._torch, version) if name != "cpu"]])

        def order(name: str) -> Any:
            row = line.get(name) or {}
            return (bool(row.get("experimental")), name != default, [-part for part in numbers(name)])

        return sorted(offered, key=order)

    def _build(self, version: str, variant: str) -> Row:
        return self._once(("build", version, variant), lambda: self._new_build(version, variant))

    def _once(self, key: Tuple[Any, ...], make: Callable[[], Row]) -> Row:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _new_build(self, version: str, variant: str) -> Row:
        release, data = self._torch["releases"][version], self._data
        line = self._torch["lines"].get(minor(version)) or {}
        known = self._torch["variants"].get(variant) or {}
        default = release["default"] if release["default"]["variant"] == variant else {}
        build = line.get(variant) or {}
        offered = offered_variants(self._torch, version)
        cuda = cuda_of(variant)
        arm = self._machine == "aarch64"
        own_index = bool(cuda) and arm and release["aarch64"] == "cpu" and "aarch64" in build
        sources = [*cite("torch", release, data), *cite("torch", line, data)]
        return {
            "version": version,
            "variant": variant,
            "line": minor(version),
            "accelerator": "nvidia" if cuda else "cpu",
            "published": variant in offered or bool(default),
            "offered": listed(offered),
            "cuda": cuda,
            "cuda_major": numbers(cuda)[0] if cuda else None,
            "cuda_runtime": default.get("cuda_runtime") or default.get("cuda_toolkit") or cuda,
            "driver_min": known.get("driver_min"),
            "toolkit_driver": known.get("toolkit_driver"),
            "capabilities": build.get("aarch64" if arm else "compute_capabilities") if cuda else None,
            "nccl": default.get("nccl") or build.get("nccl"),
            "cudnn": default.get("cudnn") or build.get("cudnn"),
            "pythons": release["python"].get(self._machine) or [],
            "for_machine": not (cuda and arm) or release["aarch64"] == "cuda" or "aarch64" in build,
            "own_index": own_index,
            "default": bool(default),
            "experimental": bool(build.get("experimental")),
            "released": True if release["date"] <= self._today else None,
            "date": release["date"],
            "source": list(dict.fromkeys(sources)),
            "driver_source": cite("torch", known, data) or ["data/torch.yml"],
        }

    def tensorflows(self, near: Optional[str] = None) -> List[Row]:
        wish = self._wishes["tensorflow"]
        if wish in ("auto", "none"):
            return [self._once(("tensorflow", None), lambda: dict.fromkeys(self._new_tensorflow(None)))]
        releases = self._data["tensorflow"]["releases"]
        versions = matching(releases, wish)
        if near:
            order = sorted(releases, key=numbers)
            at = order.index(matching(releases, near)[0]) if matching(releases, near) else 0
            versions.sort(key=lambda version: abs(order.index(version) - at))
        return [self._tensorflow(version) for version in versions]

    def _tensorflow(self, version: str) -> Row:
        return self._once(("tensorflow", version), lambda: self._new_tensorflow(version))

    def _new_tensorflow(self, version: Optional[str]) -> Row:
        data = self._data["tensorflow"]
        release = data["releases"].get(version) or {}
        requires = release.get("requires") or {}
        return {
            "version": version,
            "pythons": release.get("python"),
            "cuda": release.get("cuda"),
            "cuda_major": release.get("cuda_major"),
            "nccl": requires.get("nccl"),
            "cudnn": requires.get("cudnn"),
            "cuda_runtime": requires.get("cuda_runtime"),
            "driver_min": data["driver_min"]["value"],
            "tested_up_to": data["compute_capabilities"]["tested_up_to"],
            "machines": release.get("machines") or data["machines"]["value"],
            "gpu_machines": data["machines"]["gpu"],
            "released": True if (release.get("date") or "") <= self._today else None,
            "date": release.get("date"),
            "trouble": release.get("trouble"),
            "untroubled": not release.get("trouble"),
            "source": cite("tensorflow", release, self._data),
            "driver_source": cite("tensorflow", data["driver_min"], self._data),
            "code_source": cite("tensorflow", data["compute_capabilities"], self._data),
            "machines_source": cite("tensorflow", data["machines"], self._data),
        }

    def pythons(self) -> List[Row]:
        """The declared one; else those found on the node; else the platform's own, then the most served ones."""
        found = self._installed["pythons"]
        if self._wishes["python"] != "auto":
            versions = [self._wishes["python"]]
        elif found is not None:
            versions = list(found)
        else:
            counts: Dict[str, int] = {}
            for release in self._torch["releases"].values():
                for version in release["python"].get(self._machine) or []:
                    counts[version] = counts.get(version, 0) + 1
            versions = sorted(counts, key=lambda version: (-counts[version], [-part for part in numbers(version)]))
            own = self._platform["python"]
            versions = [own, *[version for version in versions if version != own]] if own else versions
        return [self._python(version) for version in versions or ["none"]]

    def _python(self, version: str) -> Row:
        return self._once(("python", version), lambda: {"version": version})

    def _toolkit(self, build: Row) -> Row:
        """The toolkit beside a build: of the same CUDA, the newest update, unless the distribution has its own."""
        cuda = build["cuda"]
        if self._wishes["origin"] == "distro" and cuda:
            cuda = self._platform["distro_cuda"]
        return self._once(("cuda", cuda, build["cuda"]), lambda: self._new_toolkit(cuda, build["cuda"]))

    def _new_toolkit(self, cuda: Optional[str], of_build: Optional[str]) -> Row:
        compilers = self._data["host_compilers"]["gcc_max"]
        known = self._data["drivers"]["cuda_toolkits"]
        fitting = [name for name in known if ".".join(map(str, numbers(name)[:2])) == cuda]
        version = max(fitting, key=numbers) if fitting else None
        row = known.get(version) or {}
        return {
            "version": version or cuda,
            "minor": cuda,
            "of_build": cuda == of_build,
            "driver_min": row.get("minimum"),
            "gcc_max": compilers["toolkits"].get(cuda),
            "source": cite("drivers", row, self._data),
            "gcc_source": cite("host_compilers", compilers, self._data),
        }
