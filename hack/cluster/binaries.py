"""The cluster's programs: found on this machine, or built once a machine from pinned Go modules.

Searched in this order:

1. the folder named by KUBEBUILDER_ASSETS (envtest's convention), program by program;
2. the cache, ${PINNACE_CACHE:-~/.cache/pinnace}/bin/<module>-<version>-<key>/, where the key covers
   everything that decides what is built;
3. a build with Go into that cache, from the versions pinned in hack/tools/*/go.mod.

A build is atomic (temporary files, then renames) and takes a lock, so that runs side by side build once.
A further program of these modules is one more row in PROGRAMS.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.errors import ProgramUnavailable
from hack.cluster.locks import try_lock
from hack.cluster.processes import ManagedProcess

TOOLS = Path(__file__).parents[1] / "tools"
BUILD_TIMEOUT_SECONDS = 45 * 60
PROGRESS_SECONDS = 30
GO_QUERY_TIMEOUT_SECONDS = 300  # `go env` may have to fetch a newer toolchain first

_GO_HELP = (
    "Building the development cluster needs Go {wanted} or newer in PATH. Get it from your distribution, or "
    "unpack an archive from go.dev/dl. An older Go from 1.21 on fetches the right toolchain by itself with "
    "GOTOOLCHAIN=auto. Or set KUBEBUILDER_ASSETS to a folder that holds: {programs}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """One go.mod under hack/tools, with the module whose version is that of its programs."""

    name: str
    module: str
    minutes: float
    """About how long two idle cores build all of its programs without anything in Go's caches."""
    stamp_package: str = ""
    """Package whose variables get the version; a server that reports v0.0.0 breaks clients."""
    version_variable: str = ""
    """Variable that gets the version alone, without its v."""

    @property
    def directory(self) -> Path:
        """Where the go.mod lies."""
        return TOOLS / self.name

    @property
    def version(self) -> str:
        """The pinned version of the module, such as v1.34.4."""
        found = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", self._go_mod(), re.MULTILINE)
        if not found:
            raise ProgramUnavailable(f"{self.directory / 'go.mod'} does not require {self.module}")
        return found[1]

    @property
    def go_version(self) -> str:
        """The oldest Go that can build this."""
        found = re.search(r"^go (\S+)$", self._go_mod(), re.MULTILINE)
        return found[1] if found else ""

    @property
    def ldflags(self) -> str:
        """Linker flags: no symbol tables, and the version stamp where one is wanted."""
        flags = ["-s", "-w"]
        if self.stamp_package:
            major, minor, *_ = self.version.removeprefix("v").split(".")
            stamp = {
                "gitVersion": self.version,
                "gitMajor": major,
                "gitMinor": minor,
                "gitTreeState": "clean",
                # Fixed values: the same pins give the same program on every machine.
                "gitCommit": "0" * 40,
                "buildDate": "1970-01-01T00:00:00Z",
            }
            flags += [f"-X {self.stamp_package}.{key}={value}" for key, value in stamp.items()]
        if self.version_variable:
            flags.append(f"-X {self.version_variable}={self.version.removeprefix('v')}")
        return " ".join(flags)

    @property
    def key(self) -> str:
        """A folder name that changes with anything that changes what is built."""
        recipe = hashlib.sha256(self._go_mod().encode())
        recipe.update((self.directory / "go.sum").read_bytes())
        recipe.update(self.ldflags.encode())
        for source in sorted(self.directory.rglob("*.go")):  # programs of our own
            recipe.update(source.read_bytes())
        return f"{self.name}-{self.version}-{recipe.hexdigest()[:12]}"

    def _go_mod(self) -> str:
        return (self.directory / "go.mod").read_text()


KUBERNETES = Toolset(
    name="kubernetes", module="k8s.io/kubernetes", minutes=6.5, stamp_package="k8s.io/component-base/version"
)
S3 = Toolset(name="s3", module="github.com/versity/versitygw", minutes=1)
PLUGIN = Toolset(name="plugin", module="github.com/vmware-tanzu/velero", minutes=0.5)
LATER_PLUGIN = Toolset(name="later_plugin", module="github.com/vmware-tanzu/velero", minutes=2)
CSI = Toolset(name="csi", module="github.com/kubernetes-csi/external-snapshotter/v8", minutes=2.5)
HELM = Toolset(name="helm", module="helm.sh/helm/v3", minutes=1)
GCS = Toolset(name="gcs", module="github.com/fsouza/fake-gcs-server", minutes=0.5)
AGE = Toolset(name="age", module="filippo.io/age", minutes=0.5)
KOPIA = Toolset(
    name="kopia",
    module="github.com/kopia/kopia",
    minutes=1,
    version_variable="github.com/kopia/kopia/repo.BuildVersion",
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the Go package that it is built from."""

    name: str
    package: str
    toolset: Toolset

    @property
    def output(self) -> str:
        """The file's name when Go chooses it: the package's last word that is no version of a module."""
        *_, word, last = self.package.split("/")
        return word if re.fullmatch(r"v\d+", last) else last


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "go.etcd.io/etcd/server/v3", KUBERNETES),
        Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", KUBERNETES),
        Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", KUBERNETES),
        Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", KUBERNETES),
        Program("kubelet", "k8s.io/kubernetes/cmd/kubelet", KUBERNETES),
        Program("versitygw", "github.com/versity/versitygw/cmd/versitygw", S3),
        Program("plugin-sample", "pinnace.local/hack/tools/plugin/sample", PLUGIN),
        Program("plugin-host", "pinnace.local/hack/tools/plugin/host", PLUGIN),
        Program("later-plugin", "pinnace.local/hack/tools/later_plugin/plugin", LATER_PLUGIN),
        Program(
            "snapshot-controller",
            "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
            CSI,
        ),
        Program(
            "csi-snapshotter", "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter", CSI
        ),
        Program("csi-attacher", "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher", CSI),
        Program("csi-folder-driver", "pinnace.local/hack/tools/csi/driver", CSI),
        Program("csi-folder-provisioner", "pinnace.local/hack/tools/csi/provisioner", CSI),
        Program("helm", "helm.sh/helm/v3/cmd/helm", HELM),
        Program("fake-gcs-server", "github.com/fsouza/fake-gcs-server", GCS),
        Program("kopia", "github.com/kopia/kopia", KOPIA),
        Program("age", "filippo.io/age/cmd/age", AGE),
        Program("age-plugin-pq", "filippo.io/age/extra/age-plugin-pq", AGE),
        Program("age-plugin-tagtest", "filippo.io/age/tag/internal/age-plugin-tagtest", AGE),
        Program("age-keygen", "filippo.io/age/cmd/age-keygen", AGE),
    )
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")
SCHEDULER = ("kube-scheduler",)
NODE = (*SCHEDULER, "kubelet")  # further programs of a cluster with nodes
S3_SERVER = ("versitygw",)
PLUGIN_TOOLS = ("plugin-sample", "plugin-host", "later-plugin")
CSI_TOOLS = (  # CSI volumes with snapshots
    "snapshot-controller",
    "csi-snapshotter",
    "csi-attacher",
    "csi-folder-driver",
    "csi-folder-provisioner",
)
CHART_TOOLS = ("helm",)
GCS_SERVER = ("fake-gcs-server",)
AGE_PROGRAM = ("age",)
AGE_PLUGINS = ("age-plugin-pq", "age-plugin-tagtest", "age-keygen")
UPLOADER = ("kopia",)  # restic is a package of the distribution


def cache_directory() -> Path:
    """Return the cache, outside any checkout: programs and the development cluster's state."""
    configured = os.environ.get("PINNACE_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "pinnace"


def locate(names: Sequence[str], *, architecture: str = "") -> dict[str, Path]:
    """Return the path of each program, building what is missing.

    Args:
        architecture: to build for, in Go's terms, such as `arm64`; this machine's when left out.

    Raises:
        ProgramUnavailable: a program must be built and cannot be.
    """
    programs = [PROGRAMS[name] for name in names]
    missing: dict[str, list[Program]] = {}
    for program in programs:
        if not _find(program, architecture):
            missing.setdefault(program.toolset.name, []).append(program)
    for group in missing.values():
        _build(group, architecture)
    return {
        program.name: _find(program, architecture) or _cached(program, architecture) for program in programs
    }


def announce(names: Sequence[str]) -> None:
    """Say which of these programs have to be built, and about how long that takes; nothing if none has."""
    missing = [program for name in names if not _find(program := PROGRAMS[name], "")]
    if not missing:
        return
    toolsets = {program.toolset.name: program.toolset for program in missing}
    minutes = sum(toolset.minutes for toolset in toolsets.values())
    _say(
        f"{len(missing)} of {len(names)} programs have to be built, once a machine: "
        f"at most about {minutes:.0f} minutes on two idle cores, several times that beside other work"
    )
    for name, toolset in toolsets.items():
        built = ", ".join(program.name for program in missing if program.toolset.name == name)
        _say(f"  {toolset.minutes:>4g} min  {built}")


def _cached(program: Program, architecture: str) -> Path:
    key = program.toolset.key
    return cache_directory() / "bin" / (f"{key}-{architecture}" if architecture else key) / program.name


def _find(program: Program, architecture: str) -> Path | None:
    assets = "" if architecture else os.environ.get("KUBEBUILDER_ASSETS")
    candidates = [Path(assets) / program.name] if assets else []
    candidates.append(_cached(program, architecture))
    return next((path.absolute() for path in candidates if os.access(path, os.X_OK)), None)


def _build(programs: Sequence[Program], architecture: str) -> None:
    """Build programs of one toolset with one call of Go.

    Go loads the graph of their packages once then, and links one program while it compiles another.
    """
    folder = _cached(programs[0], architecture).parent
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / ".lock"):
        programs = [program for program in programs if not _find(program, architecture)]
        if not programs:  # another run built them while this one waited
            return
        for leftover in folder.glob(".build-*"):  # of a build that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        go = _go(programs[0].toolset)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
            environment = {"CGO_ENABLED": "0", **({"GOARCH": architecture} if architecture else {})}
            log = folder / f"{programs[0].name}.build.log"
            _run_go_build(go, programs, Path(scratch), log=log, environment=environment)
            for program in programs:
                (Path(scratch) / program.output).rename(folder / program.name)


def _run_go_build(
    go: str, programs: Sequence[Program], output: Path, *, log: Path, environment: Mapping[str, str]
) -> None:
    toolset = programs[0].toolset
    names = ", ".join(program.name for program in programs)
    packages = [program.package for program in programs]
    argv: list[str | Path] = [
        go,
        "-C",
        toolset.directory,
        "build",
        "-trimpath",
        "-ldflags",
        toolset.ldflags,
        "-o",
        f"{output}/",
    ]
    started = time.monotonic()
    _say(f"building {names} of {toolset.name} {toolset.version} (once a machine; takes minutes)")
    log.unlink(missing_ok=True)
    build = ManagedProcess(f"go build {' '.join(packages)}", [*argv, *packages], log=log, env=environment)
    try:
        while (code := build.wait(PROGRESS_SECONDS)) is None:
            elapsed = time.monotonic() - started
            _say(f"still building {names} ({elapsed:.0f} s)")
            if elapsed > BUILD_TIMEOUT_SECONDS:
                raise ProgramUnavailable(f"building {names} took too long.\n{build.log_tail()}")
    finally:
        build.stop(grace_seconds=1)
    if code != 0:
        raise ProgramUnavailable(f"building {names} failed with code {code}.\n{build.log_tail()}")
    _say(f"built {names} in {time.monotonic() - started:.0f} s")


def _go(toolset: Toolset) -> str:
    """Return the path of a Go that is new enough, or say what to do."""
    help_text = _GO_HELP.format(wanted=toolset.go_version, programs=", ".join(PROGRAMS))
    go = shutil.which("go")
    if not go:
        raise ProgramUnavailable(f"There is no `go` in PATH. {help_text}")
    # Asked inside the module, so that Go itself applies the `go` line, GOTOOLCHAIN and all.
    answer = subprocess.run(
        [go, "-C", str(toolset.directory), "env", "GOVERSION"],
        capture_output=True,
        text=True,
        timeout=GO_QUERY_TIMEOUT_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        raise ProgramUnavailable(f"{answer.stderr.strip()}\n{help_text}")
    return go


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + BUILD_TIMEOUT_SECONDS
    with path.open("w") as file:
        if not try_lock(file.fileno()):
            _say(f"another run is building into {path.parent}; waiting for it")
            while not try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise ProgramUnavailable(f"another build still holds {path}")
                time.sleep(1)
        yield


def _say(text: str) -> None:
    print(f"[cluster] {text}", file=sys.stderr, flush=True)
