"""The words of a command: what is refused before anything else is done, and with which exit code."""

from pathlib import Path

import pytest

from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.declaring.types import CommaList, Number, StringSlice
from pinnace.cli.errors import InvalidInput
from pinnace.cli.main import run
from pinnace.cli.settings import resolve_settings
from pinnace.cli.words import as_written, location_in, with_short_words

Printed = pytest.CaptureFixture[str]
NO_UTF8 = "a\udcff"
"""What Python makes of the bytes `a\\xff` in an argument."""


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.found("CF6")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("backup create {bad}", 'invalid argument "a\\xff": it is not UTF-8'),
        ("backup get {bad}", 'invalid argument "a\\xff": '),
        ("get backups x {bad}", 'invalid argument "a\\xff": '),
        ("backup get -l {bad}", 'invalid argument "a\\xff" for "-l, --selector" flag: it is not UTF-8'),
        ("backup get -l={bad}", '"-l, --selector" flag'),
        ("backup get -n {bad}", '"-n, --namespace" flag'),
        ("-n {bad} backup get", '"-n, --namespace" flag'),
        ("restore create --from-backup {bad}", '"--from-backup" flag'),
        ("backup create x --labels a={bad}", 'invalid argument "a=a\\xff" for "--labels" flag'),
        ("backup create x --labels b=c --labels a={bad}", '"--labels" flag'),
        ("backup create x --annotations a={bad}", '"--annotations" flag'),
        ("backup create x --include-resources {bad}", '"--include-resources" flag'),
        ("backup create x --storage-location={bad}", '"--storage-location" flag'),
        ("backup-location create x --provider {bad}", '"--provider" flag'),
        ("backup-location create x --config a={bad}", '"--config" flag'),
        ("nonadmin backup create {bad}", 'invalid argument "a\\xff": '),
        ("client config set namespace={bad}", 'invalid argument "namespace=a\\xff": '),
        ("--kubecontext {bad} backup get", '"--kubecontext" flag'),
    ],
)
def test_a_word_that_is_no_utf8_is_refused_with_its_flag(words: str, named: str, capsys: Printed) -> None:
    assert run([word.format(bad=NO_UTF8) for word in words.split()]) == 1

    shown = capsys.readouterr().err
    assert named in shown
    assert shown.startswith("An error occurred: invalid argument ")


@pytest.mark.found("CF6")
@pytest.mark.parametrize(
    "words", ["--kubeconfig {bad} backup get", "--location {bad} backup get", "install --secret-file {bad}"]
)
def test_the_name_of_a_file_may_have_any_bytes(words: str, capsys: Printed) -> None:
    assert run([word.format(bad=NO_UTF8) for word in words.split()]) in (1, 2)

    assert "it is not UTF-8" not in capsys.readouterr().err


@pytest.mark.found("CF6")
def test_a_namespace_of_the_environment_or_the_config_file_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r'namespace "a\\xff" of the config file or VELERO_NAMESPACE'):
        resolve_settings(GlobalFlags(), environ={"VELERO_NAMESPACE": NO_UTF8})
    (tmp_path / ".config" / "velero").mkdir(parents=True)
    (tmp_path / ".config" / "velero" / "config.json").write_text('{"namespace": "\\ud800"}')
    with pytest.raises(InvalidInput, match=r'namespace "\\ud800"'):
        resolve_settings(GlobalFlags(), environ={})


def test_bytes_are_shown_as_they_are_written() -> None:
    assert as_written("a\udcff\ud800ä") == "a\\xff\\ud800ä"


@pytest.mark.found("CF7")
@pytest.mark.parametrize("place", ["loop", "~nobody-of-this-name/x", "loop/inner"])
def test_a_location_behind_a_loop_of_links_is_one_error(place: str, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "loop").symlink_to("loop")

    assert run(["--location", place, "backup", "get"]) in (1, 2)

    shown = capsys.readouterr().err
    assert "should not happen" not in shown
    assert shown.count("\n") == 1


@pytest.mark.found("CF7")
def test_a_download_does_not_replace_a_loop_of_links(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "location").mkdir()

    assert run(["--location", "location", "backup", "download", "b", "-o", "loop", "--force"]) == 1

    assert "open loop: not a regular file" in capsys.readouterr().err


@pytest.mark.found("CF8")
@pytest.mark.parametrize(
    "value", ["99999999999999999999999", str(2**63), "1e3", "٣", " 1", "1 ", "1_0", "-1", "x", ""]
)
@pytest.mark.parametrize(
    "command",
    [
        "backup create x --parallel-files-upload",
        "schedule create x --schedule @daily --parallel-files-upload",
        "restore create x --from-backup b --parallel-files-download",
        "nonadmin backup create x --parallel-files-upload",
    ],
)
def test_a_number_that_no_object_holds_is_refused(command: str, value: str, capsys: Printed) -> None:
    assert run([*command.split(), value, "-o", "json"]) == 1

    assert f'invalid argument "{value}" for "--parallel-files-' in capsys.readouterr().err


@pytest.mark.found("CF8")
def test_numbers_have_the_bounds_of_an_object() -> None:
    assert Number(whole=True).parse(str(2**63 - 1)) == 2**63 - 1
    assert Number(whole=True).parse("-0") == 0
    assert Number().parse("2.5e1") == 25
    for text in ("inf", "nan", "1e999", "9" * 5000):
        with pytest.raises(ValueError, match="number"):
            Number().parse(text)


@pytest.mark.found("CF9")
@pytest.mark.parametrize("value", ["a\nb", '"a', 'a"b', '"a"b', "a\rb"])
@pytest.mark.parametrize(
    "command",
    [
        "backup create x -o json --volume-snapshot-locations",
        "server --disable-controllers",
        "server --restore-resource-priorities",
    ],
)
def test_a_list_that_is_no_csv_record_is_refused(command: str, value: str, capsys: Printed) -> None:
    assert run([*command.split(), value]) == 1

    shown = capsys.readouterr().err
    assert shown.startswith("An error occurred: invalid argument ")
    assert "should not happen" not in shown


@pytest.mark.found("CF10")
@pytest.mark.parametrize("step", ["0", "-1"])
@pytest.mark.parametrize("form", ["jsonpath={{.items[1:0:{0}]}}", "custom-columns=A:.items[::{0}]"])
def test_a_slice_without_a_step_forward_is_refused(step: str, form: str, capsys: Printed) -> None:
    if "::" in form:
        form = form.replace("[::", "[0:1:")

    assert run(["backup", "get", "-o", form.format(step)]) == 1

    assert "must be at least 1" in capsys.readouterr().err


@pytest.mark.found("CF11")
@pytest.mark.parametrize(
    "words",
    [
        "backup get --nope --location b",
        "backup get --location b --nope",
        "backup get --location=b --nope",
        "backup get --nope --location=b",
        "--location b backup get --nope",
        "backup create x --ttl x --location b",
        "backup create x --location b --ttl x",
        "backup nope --location b",
        "backup create x y --location b",
    ],
)
def test_a_wrong_request_ends_with_2_in_whatever_order(words: str) -> None:
    assert run(words.split()) == 2


@pytest.mark.found("CF11")
def test_the_location_is_the_last_one_before_the_arguments_end() -> None:
    assert location_in(["--location", "a", "get", "--location=b"]) == "b"
    assert location_in(["get", "--", "--location", "b"]) is None
    assert location_in(["get", "--location"]) is None
    assert location_in(["get", "--location="]) == ""


@pytest.mark.found("CF15")
@pytest.mark.parametrize("value", ["", ",", "shop,", ",shop", "a,,b", " ", "a, ,b"])
@pytest.mark.parametrize(
    "flag",
    [
        "--include-namespaces",
        "--exclude-namespaces",
        "--include-resources",
        "--exclude-resources",
        "--include-cluster-scoped-resources",
        "--volume-snapshot-locations",
    ],
)
def test_an_empty_entry_of_a_list_is_refused(flag: str, value: str, capsys: Printed) -> None:
    assert run(["backup", "create", "x", flag, value, "-o", "json"]) == 1

    shown = capsys.readouterr()
    assert f'invalid argument "{value}" for "{flag}" flag: ' in shown.err
    assert "empty: write a name, or leave it out (is a variable unset?)" in shown.err
    assert shown.out == ""


@pytest.mark.found("CF15")
def test_a_process_may_be_given_empty_lists() -> None:
    """Deployments are made with them, as in `--features=`."""
    assert CommaList(may_be_empty=True).parse("") == []
    assert CommaList(may_be_empty=True).parse("a,,b") == ["a", "b"]
    assert StringSlice(may_be_empty=True).parse("") == []


@pytest.mark.found("CF22")
@pytest.mark.parametrize(
    "words",
    ["backup create x --ttl {}", "backup create {}", "backup get --{}", "{}", "backup create x --labels {}"],
)
def test_a_long_word_is_shortened_in_the_error(words: str, capsys: Printed) -> None:
    assert run([word.format("y" * 70_000) for word in words.split()]) == 1

    shown = capsys.readouterr().err
    assert "characters)..." in shown
    assert len(shown) < 1500


@pytest.mark.found("CF22")
def test_words_of_usual_length_stay_whole() -> None:
    name = "x" * 253
    assert with_short_words(f"a {name} b") == f"a {name} b"
    assert with_short_words("x" * 400) == f"{'x' * 150}...(100 characters)...{'x' * 150}"
