"""Which snapshots are removed after a save with kopia that failed."""

from pathlib import Path

import pytest

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import CommandFailed, FilesUnreadable, UnexpectedOutput, UploaderError
from pinnace.volumes.uploader.interface import Source
from tests.unit.volumes.programs import TAGS, ScriptedProgram

SHOP = Repository(location="default", namespace="shop", uploader="kopia")
MADE, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def program(tmp_path: Path) -> ScriptedProgram:
    repository = tmp_path / "bucket/kopia/shop"
    repository.mkdir(parents=True)
    (repository / "kopia.repository.f").touch()
    return ScriptedProgram(tmp_path)


async def save(program: ScriptedProgram, create: str, tags: dict[str, str] = TAGS) -> None:
    """Save the volume with a kopia that runs this on `snapshot create`, and lists the snapshot MADE."""
    program.answer(snapshot_create=create, snapshot_list=f"""echo '[{{"id":"{MADE}"}}]'""")
    kopia = Kopia(program.accesses, program=str(program.path))
    await kopia.save(SHOP, Source(path=program.volume, name="n", tags=tags))


def removed(program: ScriptedProgram) -> list[str]:
    """The ids of the snapshots that were removed."""
    return [line.split()[-1] for line in program.calls("snapshot delete")]


def printed(members: str = "", summary: str = "") -> str:
    """The shell command that prints the snapshot OTHER as kopia does."""
    return f"""echo '{{"id":"{OTHER}","rootEntry":{{"obj":"k1","summ":{{"size":1{summary}}}}}{members}}}'"""


async def test_a_snapshot_that_lacks_a_part_is_refused_and_removed(program: ScriptedProgram) -> None:
    with pytest.raises(CommandFailed, match=r"only a part of the volume \(canceled\)"):
        await save(program, printed(',"incomplete":"canceled"'))
    assert removed(program) == [OTHER]


async def test_a_snapshot_that_lacks_files_is_refused_and_removed(program: ScriptedProgram) -> None:
    errors = ',"numFailed":2,"errors":[{"path":"a","error":"denied"}]'
    with pytest.raises(FilesUnreadable, match="a: denied and 1 more"):
        await save(program, printed(summary=errors))
    assert removed(program) == [OTHER]


@pytest.mark.parametrize(
    ("create", "kind"),
    [("kill -9 $$", CommandFailed), ("true", UnexpectedOutput), ("echo none", UnexpectedOutput)],
    ids=["killed", "nothing printed", "no JSON"],
)
async def test_a_snapshot_whose_id_is_not_known_is_removed_by_its_tags(
    program: ScriptedProgram, create: str, kind: type[UploaderError]
) -> None:
    with pytest.raises(kind):
        await save(program, create)

    assert removed(program) == [MADE]
    (listing,) = program.calls("snapshot list")
    assert all(f"--tags={name}:{value}" in listing for name, value in TAGS.items())


@pytest.mark.parametrize("missing", ["backup-uid", "ns", "volume", "pod-uid"])
async def test_nothing_is_removed_by_tags_that_other_volumes_may_have(
    program: ScriptedProgram, missing: str
) -> None:
    with pytest.raises(UnexpectedOutput):
        await save(program, "true", {name: value for name, value in TAGS.items() if name != missing})
    assert removed(program) == []


async def test_nothing_is_removed_after_an_error_without_a_snapshot(program: ScriptedProgram) -> None:
    with pytest.raises(CommandFailed):
        await save(program, "exit 1")
    assert removed(program) == []
