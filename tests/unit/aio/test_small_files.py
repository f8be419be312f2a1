"""Files that are small by their nature, and devices that are not."""

import errno
from pathlib import Path

import pytest

from pinnace.aio.small_files import MAX_BYTES, read_small_file
from pinnace.cli.main import run


@pytest.mark.found("CF21")
def test_a_file_up_to_the_limit_is_read_and_a_larger_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert read_small_file(path, max_bytes=5) == b"12345"
    with pytest.raises(OSError, match="larger than 0 MiB") as caught:
        read_small_file(path, max_bytes=4)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.found("CF21")
@pytest.mark.parametrize(
    "words",
    [
        "--kubeconfig {big} backup get",
        "install --provider aws --bucket b --dry-run --secret-file {big}",
        "install --provider aws --bucket b --dry-run --no-secret --cacert {big}",
        "backup-location create x --provider aws --bucket b --cacert {big} -o yaml",
        "--location s3://b?caCertFile={big} backup get",
    ],
)
def test_no_command_reads_a_file_without_end(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PINNACE_LOCATION", raising=False)
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    assert run(words.format(big=big).split()) in (1, 2)

    assert "larger than 16 MiB" in capsys.readouterr().err


@pytest.mark.found("CF21")
def test_a_config_file_without_end_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "velero"
    folder.mkdir(parents=True)
    (folder / "config.json").symlink_to("/dev/zero")

    assert run(["client", "config", "get"]) == 1

    assert "larger than 16 MiB" in capsys.readouterr().err
