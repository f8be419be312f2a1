"""The root file system of the image: a minimal Debian with Python, restic, kopia, certificates, the package.

No Docker engine and no root is needed: apt-get fetches Debian packages with the dependencies that they have
in an empty system, dpkg-deb unpacks them, and pip adds what requirements/runtime.txt pins by hash. The Debian
release is that of the machine this runs on. The image has no shell and no package manager. `build.py` and the
Dockerfile both use this file, so that both give the same image; in the Dockerfile it stands alone, hence only
the standard library. An image for another architecture than this machine's needs an emulator, which checks it
and compiles its Python.

    python3 deploy/image/root_filesystem.py --kopia PROGRAM [--architecture arm64] FOLDER
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2]
"""The checkout."""

PROGRAMS = ("python3", "restic", "libstdc++6")
"""Debian packages that come with all they depend on; the last is for Python packages in C++."""
DATA = ("base-files", "ca-certificates", "tzdata")
"""Only the files of these Debian packages are wanted: what they depend on is for their installation."""
LEFT_OUT = frozenset({"dpkg", "tar"})
"""Packages that others need only for their installation."""

BUILD_BACKEND = "hatchling"
"""What makes the wheel; its version, what it needs, and the hashes are in requirements/dev.txt."""

USER = 65532
"""The user of the image by default; the workloads of `pinnace install` have the same."""
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
"""The file system is read-only where it matters, so that home is where writing is allowed."""
ENTRYPOINT = ("pinnace",)
ALIASES = ("velero", "velero-restic-restore-helper")
"""Other names of the command, at the root, where workloads and pods of Velero look for its programs."""

COMMAND_TIMEOUT_SECONDS = 600.0

Arguments = Sequence[str | Path]

_MANYLINUX_MINORS = range(17, 37)  # Debian 12 has glibc 2.36
_SUPERFLUOUS = (
    *("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bug"),
    *("usr/share/menu", "usr/share/applications", "usr/share/pixmaps", "usr/share/doc-base"),
    *("usr/share/bash-completion", "usr/share/zsh", "usr/share/gcc", "usr/share/gdb", "usr/share/binfmts"),
    *("usr/lib/*/gconv", "usr/sbin", "etc/init.d", "etc/cron.daily", "etc/logrotate.d", "etc/update-motd.d"),
)
_NOTES_OF_PIP = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
_USERS = f"""\
root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
pinnace:x:{USER}:{USER}:pinnace:/tmp:/sbin/nologin
"""
_GROUPS = f"root:x:0:\nnogroup:x:65534:\npinnace:x:{USER}:\n"
_SCRIPT = """\
#!/usr/bin/python3
import sys

from pinnace.cli.main import main

sys.exit(main())
"""


class BuildError(Exception):
    """A step failed; the text has the command and the end of its output."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of machine that an image can be for.

    Attributes:
        architecture: as Debian and Go name it.
        name: as Linux, Python and QEMU name it.
    """

    architecture: str
    name: str


MACHINES = {"amd64": Machine("amd64", "x86_64"), "arm64": Machine("arm64", "aarch64")}


def this_machine() -> Machine:
    """The machine that this runs on. If it is not in MACHINES, its Linux name is taken for Debian's too."""
    name = platform.machine()
    return next((machine for machine in MACHINES.values() if machine.name == name), Machine(name, name))


def machine_named(architecture: str) -> Machine:
    """The machine of an architecture that `add_architecture` accepts."""
    return MACHINES.get(architecture) or this_machine()


def add_architecture(parser: argparse.ArgumentParser) -> None:
    """Add the option for images of other machines."""
    native = this_machine().architecture
    parser.add_argument(
        "--architecture",
        default=native,
        choices=sorted({*MACHINES, native}),
        help=f"default {native}; another one needs Debian's package qemu-user-static",
    )


def build(tree: Path, kopia: Path, machine: Machine) -> None:
    """Make the root file system.

    Args:
        kopia: the program, linked statically; no Debian release has it.
        tree: a folder that does not exist yet. All that is in it in the end depends only on the checkout and
            the package sources: times are those of SOURCE_DATE_EPOCH, or 1970.

    Raises:
        BuildError: a step failed; the content of the folder cannot be used.
    """
    emulator(machine)  # before packages are downloaded, which takes minutes
    tree.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="pinnace-image-") as scratch:
        for package in _fetch_packages(Path(scratch) / "debian", machine):
            _unpack(package, tree)
        _remove_superfluous(tree)
        _write_system_files(tree)
        _add_project(tree, Path(scratch), machine)
    _add_kopia(tree, kopia)
    loader = _loader(tree, machine)
    _check_libraries(tree, loader)
    _compile(tree, loader)
    _settle_times(tree)


def _fetch_packages(folder: Path, machine: Machine) -> Iterator[Path]:
    """Download the packages; `base-files` comes first, as others go through the links it makes."""
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    nothing_installed = folder / "status"
    nothing_installed.touch()
    options: Arguments = (
        *("-o", f"Dir::State::status={nothing_installed}", "-o", f"Dir::Cache::archives={archives}"),
        *("-o", "APT::Install-Recommends=false", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=true"),
        *("--quiet", "--yes"),
    )
    if machine != this_machine():
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        for name in ("APT::Architecture", "APT::Architectures"):
            options = (*options, "-o", f"{name}={machine.architecture}")
        options = (*options, "-o", f"Dir::State::lists={lists}")
        _run(["apt-get", *options, "update"])
    _run(["apt-get", *options, "--download-only", "install", *PROGRAMS])
    _run(["apt-get", *options, "download", *DATA], directory=archives)
    found = sorted(
        archives.glob("*.deb"), key=lambda path: (not path.name.startswith("base-files_"), path.name)
    )
    return (path for path in found if path.name.partition("_")[0] not in LEFT_OUT)


def _unpack(package: Path, tree: Path) -> None:
    """Add a package's files, and its description where scanners look for it in images without dpkg."""
    _run(["dpkg-deb", "--extract", package, tree])
    descriptions = tree / "var/lib/dpkg/status.d"
    descriptions.mkdir(parents=True, exist_ok=True)
    (descriptions / package.name.partition("_")[0]).write_text(_run(["dpkg-deb", "--field", package]))


def _remove_superfluous(tree: Path) -> None:
    for path in [path for pattern in _SUPERFLUOUS for path in tree.glob(pattern)]:
        shutil.rmtree(path)
    for path in (tree / "usr/share/doc").rglob("*"):
        if path.name != "copyright" and not path.is_dir():
            path.unlink()


def _write_system_files(tree: Path) -> None:
    """What installation scripts would have made: users, certificates, the commands' links."""
    etc = tree / "etc"
    (etc / "passwd").write_text(_USERS)
    (etc / "group").write_text(_GROUPS)
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    certificates = etc / "ssl/certs/ca-certificates.crt"
    certificates.parent.mkdir(parents=True, exist_ok=True)
    trusted = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    if not trusted:
        raise BuildError("the package ca-certificates has no certificates")
    certificates.write_text("".join(path.read_text() for path in trusted))
    default_of_openssl = tree / "usr/lib/ssl/cert.pem"
    default_of_openssl.parent.mkdir(parents=True, exist_ok=True)
    default_of_openssl.unlink(missing_ok=True)
    default_of_openssl.symlink_to("/etc/ssl/certs/ca-certificates.crt")
    for name in ("tmp", "var/tmp"):
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name).chmod(0o1777)


def _add_kopia(tree: Path, program: Path) -> None:
    target = tree / "usr/local/bin/kopia"
    shutil.copyfile(program, target)
    target.chmod(0o755)


def _add_project(tree: Path, scratch: Path, machine: Machine) -> None:
    """Install the locked dependencies, the package and its command."""
    version = _python_version(tree)
    target = tree / f"usr/local/lib/python{version}/dist-packages"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    tags = _wheel_tags(version, machine)
    into: Arguments = [*tags, "--no-compile", "--only-binary=:all:", "--target", target]
    _run([*pip, "install", *into, "--require-hashes", "-r", SOURCE / "requirements/runtime.txt"])

    backend, wheels = scratch / "backend", scratch / "wheels"
    pinned = scratch / "backend.txt"
    pinned.write_text(_pinned(BUILD_BACKEND, (SOURCE / "requirements/dev.txt").read_text()))
    _run([*pip, "install", "--no-compile", "--target", backend, "--require-hashes", "-r", pinned])
    wheel: Arguments = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, SOURCE]
    _run(wheel, environment={"PYTHONPATH": str(backend)})
    _run([*pip, "install", *into, "--no-deps", "--no-index", *wheels.glob("*.whl")])

    # pip's scripts name the interpreter that runs pip, and its notes this machine's paths.
    shutil.rmtree(target / "bin", ignore_errors=True)
    for note in [path for name in _NOTES_OF_PIP for path in target.glob(f"*.dist-info/{name}")]:
        note.unlink()
    command = tree / "usr/local/bin" / ENTRYPOINT[0]
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(_SCRIPT)
    command.chmod(0o755)
    for name in ALIASES:
        (tree / name).symlink_to(f"usr/local/bin/{ENTRYPOINT[0]}")


def _python_version(tree: Path) -> str:
    """The version of Python in the image, such as 3.11; /usr/bin/python3 is a link to it."""
    return (tree / "usr/bin/python3").readlink().name.removeprefix("python")


def _wheel_tags(version: str, machine: Machine) -> list[str]:
    """The options that make pip choose wheels for the image's interpreter, not for its own."""
    tags = ["--implementation", "cp", "--python-version", version]
    for abi in (f"cp{version.replace('.', '')}", "abi3", "none"):
        tags += ["--abi", abi]
    for minor in _MANYLINUX_MINORS:
        tags += ["--platform", f"manylinux_2_{minor}_{machine.name}"]
    return [*tags, "--platform", f"manylinux2014_{machine.name}", "--platform", "any"]


def _pinned(name: str, requirements: str) -> str:
    """The lines of a lock file that pin one package and all that it depends on."""
    blocks = {}
    for block in re.split(r"^(?=[\w.-]+==)", requirements, flags=re.MULTILINE):
        blocks[block.partition("==")[0]] = block
    wanted: dict[str, str] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        wanted[current] = blocks[current]
        brought = re.compile(rf"^ +#(?: via)? +{re.escape(current)}$", re.MULTILINE)
        waiting += [other for other, block in blocks.items() if other not in wanted and brought.search(block)]
    return "".join(wanted.values())


def _check_libraries(tree: Path, loader: Arguments) -> None:
    """Refuse a tree with a Python package that lacks a library: it would show in a pod, and late."""
    lacking = set()
    for extension in sorted((tree / "usr/local/lib").rglob("*.so")):
        for name, found in re.findall(
            r"^\t(\S+) => (.+?)(?: \(0x.*)?$", _run([*loader, "--list", extension]), re.M
        ):
            if not Path(found).is_relative_to(tree.resolve()):
                lacking.add(f"{name}, for {extension.relative_to(tree)}")
    if lacking:
        raise BuildError("these libraries are in no package of the image: " + "; ".join(sorted(lacking)))


def _compile(tree: Path, loader: Arguments) -> None:
    """Compile everything with the image's own interpreter: a read-only container cannot do it later."""
    version = _python_version(tree)
    folders = [f"usr/lib/python{version}", "usr/lib/python3", f"usr/local/lib/python{version}"]
    folders = [name for name in folders if (tree / name).is_dir()]
    # Unchecked, as times of sources mean nothing here.
    options = ("--invalidation-mode", "unchecked-hash", "-q", "-j", "0", "-s", tree, "-p", "/")
    _run(
        [
            *loader,
            tree / f"usr/bin/python{version}",
            "-m",
            "compileall",
            *options,
            *(tree / name for name in folders),
        ],
        environment={"PYTHONHOME": str(tree / "usr"), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _loader(tree: Path, machine: Machine) -> Arguments:
    """The command that runs a program of the image here with the image's libraries, without chroot."""
    (loader,) = {path.resolve() for path in tree.glob("lib*/ld-linux*.so.*")}
    (libc,) = {path.resolve() for path in tree.glob("lib/*/libc.so.6")}
    folders = (libc.parent, tree.resolve() / "usr/lib" / libc.parent.name)
    return [*emulator(machine), loader, "--library-path", ":".join(map(str, folders))]


def emulator(machine: Machine) -> Arguments:
    """The command that runs programs of that machine here; empty for this machine. Raises BuildError."""
    if machine == this_machine():
        return []
    for name in (f"qemu-{machine.name}-static", f"qemu-{machine.name}"):
        if found := shutil.which(name):
            return [found]
    raise BuildError(
        f"an image for {machine.architecture} needs qemu-{machine.name} on this machine: "
        "apt-get install qemu-user-static"
    )


def _settle_times(tree: Path) -> None:
    """Set all times alike, so that the same content always gives the same image."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def _run(
    argv: Arguments, *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program and return its output. Raises BuildError."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and no input from outside
            words,
            cwd=directory,
            env={**os.environ, **(environment or {}), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise BuildError(
            f"{words[0]} is not installed: this needs Debian or a distribution made from it"
        ) from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{' '.join(words[:4])} did not end in {COMMAND_TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode:
        output = (done.stdout + done.stderr).strip()[-2000:]
        raise BuildError(f"{' '.join(words[:4])} ended with {done.returncode}:\n{output}")
    return done.stdout


def main() -> None:
    """Make the root file system in the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Make the root file system of the image in a new folder.")
    parser.add_argument("folder", type=Path, help="must not exist")
    parser.add_argument("--kopia", type=Path, required=True, help="the program, built from hack/tools/kopia")
    add_architecture(parser)
    arguments = parser.parse_args()
    try:
        build(arguments.folder, arguments.kopia, machine_named(arguments.architecture))
    except (BuildError, FileExistsError) as error:
        sys.exit(f"root_filesystem: {error}")


if __name__ == "__main__":
    main()
