"""Python programs in images: this machine's interpreter, its standard library, and installed packages.

With `images.py` this makes an image of the project as it stands in the checkout, without a registry and
without a build tool:

    tree = Path("tree")
    add_busybox(tree)
    add_python(tree)
    add_distribution(tree, "pinnace")
    add_program(tree, Path("/usr/bin/restic"))
    image_from_tree(tree, archive, {"localhost/pinnace:1": python_config("/usr/local/bin/pinnace")})
"""

import importlib.metadata
import importlib.util
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from hack.cluster.nodes.images import ImageConfig, add_libraries, add_program

PACKAGES = "/opt/python"
"""Where installed packages go."""
INTERPRETER = "/usr/local/bin/python3"

_SCRIPT = f"""\
#!{INTERPRETER}
import sys
from {{module}} import {{function}}
sys.exit({{function}}())
"""

# Parts of the standard library that no server uses, by name. Compiled modules are in use: a pod cannot keep
# any, and would compile all that it imports, which takes twice as long as the rest of its start.
_LEFT_OUT = (
    *("*.opt-?.pyc", "test", "idlelib", "tkinter", "ensurepip", "config-*"),
    *("dist-packages", "site-packages"),
)


def python_config(*entrypoint: str, user: str = "") -> ImageConfig:
    """Return the configuration of an image whose programs find the packages."""
    return ImageConfig(
        entrypoint=entrypoint,
        environment={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": PACKAGES, "HOME": "/tmp"},  # noqa: S108
        user=user,
    )


def add_python(tree: Path) -> None:
    """Copy the interpreter that runs this, with its standard library, to the same paths."""
    interpreter = Path(sys.executable).resolve()
    add_program(tree, interpreter)
    link = tree / INTERPRETER.lstrip("/")
    if not link.exists() and not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(interpreter)
    library = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})
    target = tree / library.lstrip("/")
    shutil.copytree(
        library, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_LEFT_OUT)
    )
    add_libraries(tree, sorted(Path(library).rglob("*.so")))


def add_distribution(tree: Path, name: str) -> None:
    """Copy an installed package and all that it requires into PACKAGES, and its commands to /usr/local/bin.

    An editable one is copied from its source.
    Extras are left out, and so is what the requirements name for other platforms, as it is not installed.
    """
    target = tree / PACKAGES.lstrip("/")
    shared: list[Path] = []
    for distribution in _closure(name).values():
        shared += _copy_files(distribution, target)
    _copy_editable(name, target)
    add_libraries(tree, shared)
    for command in importlib.metadata.distribution(name).entry_points.select(group="console_scripts"):
        script = tree / INTERPRETER.lstrip("/")
        script = script.with_name(command.name)
        script.write_text(_SCRIPT.format(module=command.module, function=command.attr))
        script.chmod(0o755)


def _closure(name: str) -> dict[str, importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        current = _canonical(waiting.pop())
        if current in found:
            continue
        try:
            found[current] = importlib.metadata.distribution(current)
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in found[current].requires or []:
            if "extra ==" not in requirement and (match := re.match(r"[\w.-]+", requirement)):
                waiting.append(match[0])
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy_files(distribution: importlib.metadata.Distribution, target: Path) -> list[Path]:
    """Copy a distribution's files; return its shared libraries, where they are on this machine."""
    shared = []
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file)))
        # Scripts lie outside (".."), paths to a source are of this machine only.
        if ".." in file.parts or file.suffix == ".pth" or not source.is_file():
            continue
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target / file)
        if ".so" in file.suffixes:
            shared.append(source)
    return shared


def _copy_editable(name: str, target: Path) -> None:
    spec = importlib.util.find_spec(name.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        return
    (source,) = spec.submodule_search_locations
    unfinished = shutil.ignore_patterns("*.pyc.*")  # another process is compiling a module
    shutil.copytree(source, target / Path(source).name, dirs_exist_ok=True, ignore=unfinished)
