"""Which password opens a repository, and what is done under Velero's public one."""

import base64
from pathlib import Path

import pytest

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import AccessError, UnexpectedOutput, WrongPassword
from pinnace.volumes.uploader.interface import Source
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME, Password
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


@pytest.mark.parametrize("repository", REPOSITORIES, ids=IDS)
async def test_while_the_password_is_changed_both_open_repositories(
    repository: Repository, tmp_path: Path
) -> None:
    program = ScriptedProgram(tmp_path)
    secret = program.cluster.stored("secrets", SECRET_NAME)
    secret["data"][Password.NEXT] = base64.b64encode(b"next").decode()
    uploaders = opened_by(program, "next")
    await uploaders.connect(repository)
    with pytest.raises(UnexpectedOutput):  # the program prints no snapshot: it was opened
        await uploaders.save(repository, Source(path=program.volume))


@pytest.mark.parametrize(
    ("config", "is_read"),
    [({"repositories.passwordSecret": "own"}, False), ({"requireSignature": "true"}, False), ({}, True)],
    ids=["own Secret", "signed", "neither"],
)
async def test_the_public_password_is_not_tried_where_the_location_excludes_it(
    config: dict[str, str], is_read: bool, tmp_path: Path
) -> None:
    program = ScriptedProgram(tmp_path)
    program.cluster.stored("backupstoragelocations", "default")["spec"]["config"] |= config
    program.cluster.add("secrets", "own", data={SECRET_KEY: base64.b64encode(b"own").decode()})
    uploaders = opened_by(program, "static-passw0rd")
    if is_read:
        await uploaders.connect(REPOSITORIES[0])
    else:
        with pytest.raises(WrongPassword):
            await uploaders.connect(REPOSITORIES[0])


async def test_a_location_has_the_password_of_the_secret_that_it_names(tmp_path: Path) -> None:
    program = ScriptedProgram(tmp_path)
    location = program.cluster.stored("backupstoragelocations", "default")
    location["spec"]["config"]["repositories.passwordSecret"] = "own"
    uploaders = opened_by(program, "of the location")
    with pytest.raises(AccessError, match='Secret "own" not found in namespace'):
        await uploaders.connect(REPOSITORIES[0])
    program.cluster.add("secrets", "own", data={SECRET_KEY: base64.b64encode(b"of the location").decode()})
    await uploaders.connect(REPOSITORIES[0])
    assert len(program.calls("snapshots")) == 1
