"""Which password opens a repository, and what is done under Velero's public one."""

from pathlib import Path

import pytest

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import AccessError, WrongPassword
from pinnace.volumes.uploader.interface import Source
from pinnace.volumes.uploaders import Uploaders
from tests.unit.volumes.programs import ScriptedProgram

REPOSITORIES = [
    Repository(identifier="/repository", location="default", namespace="shop"),
    Repository(location="default", namespace="shop", uploader="kopia"),
]
IDS = ["restic", "kopia"]

_PASSWORD = (
    'for a in "$@"; do case "$a" in --password-file=*) P=$(cat "${a#*=}");; esac; done; '
    "P=${P-$KOPIA_PASSWORD}"
)
_WRONG = 'echo "wrong password or no key found: invalid repository password" >&2; exit 1'


def opened_by(program: ScriptedProgram, password: str) -> Uploaders:
    """Uploaders whose repositories open with this password, and have no snapshots."""
    open_it = f'{_PASSWORD}; [ "$P" = "{password}" ] || {{ {_WRONG}; }}; echo "[]"'
    program.answer(version="echo restic 0.18", **{"": open_it})
    (program.path.parent / "bucket" / "kopia" / "shop").mkdir(parents=True)
    (program.path.parent / "bucket" / "kopia" / "shop" / "kopia.repository.f").touch()
    return Uploaders(
        {
            "restic": Restic(program.accesses, program=str(program.path)),
            "kopia": Kopia(program.accesses, program=str(program.path)),
        }
    )


@pytest.mark.parametrize("repository", REPOSITORIES, ids=IDS)
async def test_a_repository_with_the_public_password_is_read(repository: Repository, tmp_path: Path) -> None:
    uploaders = opened_by(ScriptedProgram(tmp_path), "static-passw0rd")
    await uploaders.connect(repository)
    assert await uploaders.snapshot_ids(repository) == frozenset()


@pytest.mark.parametrize("repository", REPOSITORIES, ids=IDS)
async def test_nothing_is_saved_under_the_public_password(repository: Repository, tmp_path: Path) -> None:
    program = ScriptedProgram(tmp_path)
    uploaders = opened_by(program, "static-passw0rd")
    with pytest.raises(AccessError, match="of namespace shop in location default has Velero's public"):
        await uploaders.save(repository, Source(path=program.volume))


@pytest.mark.parametrize("repository", REPOSITORIES, ids=IDS)
async def test_an_unknown_password_is_what_it_was_before(repository: Repository, tmp_path: Path) -> None:
    program = ScriptedProgram(tmp_path)
    uploaders = opened_by(program, "of another cluster")
    with pytest.raises(WrongPassword):
        await uploaders.snapshot_ids(repository)
    with pytest.raises(WrongPassword):
        await uploaders.save(repository, Source(path=program.volume))


@pytest.mark.parametrize("repository", REPOSITORIES, ids=IDS)
async def test_the_password_of_the_secret_is_tried_first(repository: Repository, tmp_path: Path) -> None:
    program = ScriptedProgram(tmp_path)
    await opened_by(program, "password").snapshot_ids(repository)
    assert len(program.calls("snapshot")) == 1
