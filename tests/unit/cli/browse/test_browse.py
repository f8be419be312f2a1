"""`backup ls|show|diff|search|index` and `history`, without a server, on backups of ours and of Velero's."""

import gzip
import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.browse.masking import COPIES
from pinnace.cli.main import run
from tests.support.large_yaml import read_large_yaml
from tests.support.stores.indexed_backups import config_map, secret, store

Printed = pytest.CaptureFixture[str]


def printed(capsys: Printed, *words: str, code: int = 0) -> str:
    assert run(list(words)) == code, capsys.readouterr()
    return capsys.readouterr().out


def data(capsys: Printed, *words: str, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed(capsys, *words, "-o", "json", code=code))
    return found


class TestVelerosBackups:
    def test_items_are_listed_with_one_line_about_the_missing_index(
        self, velero: Path, capsys: Printed
    ) -> None:
        assert run(["backup", "ls", "files"]) == 0
        out, err = capsys.readouterr()
        assert "files       pods              keeper\n" in out
        assert len(out.splitlines()) == 9
        assert err.count("\n") == 1
        assert "has no index" in err
        assert err.endswith("(`pinnace backup index files` writes one).\n")

    def test_an_index_written_later_lists_the_same_items(self, velero: Path, capsys: Printed) -> None:
        before = data(capsys, "backup", "ls", "everything")
        printed(capsys, "backup", "index", "everything")

        assert run(["backup", "ls", "everything", "-o", "json"]) == 0
        out, err = capsys.readouterr()

        assert json.loads(out) == before
        assert err == ""
        assert len(before) > 300

    def test_an_object_is_shown_as_stored(self, velero: Path, capsys: Printed) -> None:
        without = printed(capsys, "backup", "show", "files", "pod/keeper", "-n", "files")
        printed(capsys, "backup", "index", "files")
        assert printed(capsys, "backup", "show", "files", "pods", "keeper") == without
        assert "kind: Pod\n" in without

    def test_two_backups_are_compared(self, velero: Path, capsys: Printed) -> None:
        words = ("backup", "diff", "everything", "from-schedule", "--include-namespaces", "shop")
        assert printed(capsys, *words, "--include-resources", "configmaps,secrets", code=0) == ""
        found = data(capsys, "backup", "diff", "everything", "files", "--include-namespaces", "shop", code=1)
        assert {one["change"] for one in found} == {"removed"}


class TestListing:
    def test_items_are_selected_by_kind_name_label_and_namespace(
        self, location: Path, capsys: Printed
    ) -> None:
        store(location, "b1", [config_map("a"), config_map("b", "other"), secret("a")])

        def names(*words: str) -> list[str]:
            return printed(capsys, "backup", "ls", "b1", *words, "-o", "name").split()

        assert names() == ["configmaps/b", "configmaps/a", "secrets/a"]
        assert names("ConfigMap") == names("cm") == ["configmaps/b", "configmaps/a"]
        assert names("-n", "shop") == ["configmaps/a", "secrets/a"]
        assert names("secret/a") == names("--include-resources", "secrets") == ["secrets/a"]
        assert names("-l", "app=b") == ["configmaps/b"]
        printed(capsys, "backup", "ls", "b1", "secret/zzz", code=1)

    def test_a_summary_counts_by_kind_and_namespace(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [config_map("a"), config_map("b"), secret("a")])
        found = data(capsys, "backup", "ls", "b1", "--summary")
        assert [(one["resource"], one["items"]) for one in found] == [("configmaps", 2), ("secrets", 1)]

    def test_hostile_names_cannot_steer_a_terminal(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [config_map("a\x1b[2Jb\nc", x="\x1b]0;title\x07")])
        for words in (["ls", "b1"], ["ls", "b1", "-o", "name"], ["ls", "b1", "-o", "yaml"]):
            out = printed(capsys, "backup", *words)
            assert "\x1b" not in out
        assert "\x1b" not in printed(capsys, "backup", "search", "b1", "title", "--content")


class TestIndex:
    def test_each_name_is_one_line_without_control_characters(self, location: Path, capsys: Printed) -> None:
        for name in ("b1", "b2"):
            store(location, name, [config_map("a\x1b[2J\n+ secrets/b", x=name)])
        name = "configmaps/a\\x1b[2J\\n+ secrets/b"

        assert printed(capsys, "backup", "ls", "b1", "-o", "name") == f"{name}\n"
        assert printed(capsys, "backup", "search", "b1", "a", "-o", "name") == f"b1: {name}\n"
        diff = printed(capsys, "backup", "diff", "b1", "b2", "--name-only", code=1)
        assert diff == f"~ {name} in shop\n"

    @pytest.mark.parametrize("words", [[], ["--summary"]], ids=["items", "summary"])
    @pytest.mark.parametrize(
        ("asked", "end"),
        [
            (["configmpas"], "matches; did you mean configmaps?\n"),
            (["cm", "-n", "shpo"], "matches; did you mean -n shop?\n"),
            (["-l", "app=b"], "matches.\n"),
        ],
        ids=["type", "namespace", "label"],
    )
    def test_similar_names_are_suggested_where_nothing_matches(
        self, location: Path, capsys: Printed, words: list[str], asked: list[str], end: str
    ) -> None:
        store(location, "b1", [config_map("a")])
        assert run(["backup", "ls", "b1", *asked, *words]) == 0
        assert capsys.readouterr() == ("", f"Nothing in backup b1 {end}")

    def test_a_damaged_index_is_left_aside_with_one_line(self, location: Path, capsys: Printed) -> None:
        directory = store(location, "b1", [config_map("a")])
        index = directory / "b1-pinnace-index.json.gz"
        for damaged in (
            b"",
            b"no gzip",
            index.read_bytes()[:-5],
            gzip.compress(b'{"pinnaceIndex":1}\n[1]\n'),
        ):
            index.write_bytes(damaged)
            assert run(["backup", "ls", "b1"]) == 0
            out, err = capsys.readouterr()
            assert "configmaps" in out
            assert err.count("\n") == 1
            assert "is not used" in err

    def test_the_tarball_wins_over_an_index_that_disagrees(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [config_map("a", x="right")])
        other = store(location, "b2", [config_map("a", x="wrong")])
        own = location / "backups/b1/b1-pinnace-index.json.gz"
        own.write_bytes((other / "b2-pinnace-index.json.gz").read_bytes())

        assert run(["backup", "show", "b1", "cm/a"]) == 0
        out, err = capsys.readouterr()

        assert "x: right" in out
        assert "DISAGREES WITH THE TARBALL" in err

    @pytest.mark.parametrize("command", ["ls", "search"])
    def test_an_index_of_another_tarball_is_reported(
        self, location: Path, capsys: Printed, command: str
    ) -> None:
        directory = store(location, "b1", [config_map("a")])
        other = store(location, "b2", [config_map("a"), config_map("b")])
        tarball = directory / "b1.tar.gz"
        tarball.write_bytes((other / "b2.tar.gz").read_bytes())

        assert run(["backup", command, "b1", *(["a"] if command == "search" else [])]) == 0
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f"has a tarball of {tarball.stat().st_size} bytes and the index of one of " in err

        tarball.unlink()
        assert run(["backup", "show", "b1", "cm/b"]) == 1
        assert capsys.readouterr().err.startswith("Backup b1 has no tarball: ")

    def test_offsets_beyond_the_tarball_are_rejected(self, location: Path, capsys: Printed) -> None:
        directory = store(location, "b1", [config_map("a")])
        index = directory / "b1-pinnace-index.json.gz"
        sound = gzip.decompress(index.read_bytes())
        for place in (b'{"member":999999,"length":9}', b'{"member":0,"length":99999999999}'):
            start = sound.index(b'{"member"')
            end = sound.index(b"\n", start)
            index.write_bytes(gzip.compress(sound[:start] + place + sound[end:]))
            assert "kind: ConfigMap" in printed(capsys, "backup", "show", "b1", "cm/a")


class TestSecrets:
    def test_values_are_hidden_unless_asked_for(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [secret("a", password="hunter2")])
        store(location, "b2", [secret("a", password="hunter3", version="2")])
        commands = (
            ["show", "b1", "secret/a"],
            ["diff", "b1", "b2"],
            ["diff", "b1", "b2", "--full"],
            ["diff", "b1", "b2", "-o", "json"],
            ["search", "b1", "hunter", "--content"],
        )
        for words in commands:
            run(["backup", *words])
            assert "hunter" not in capsys.readouterr().out, words
            run(["backup", *words, "--show-secrets"])
            assert "hunter" in capsys.readouterr().out, words
        assert "<hidden, changed>" in printed(capsys, "backup", "diff", "b1", "b2", code=1)

    def test_what_is_stored_as_a_secret_is_hidden_whatever_it_says_of_itself(
        self, location: Path, capsys: Printed
    ) -> None:
        for name, value in (("b1", "hunter2"), ("b2", "hunter3")):
            obj = {"apiVersion": "v1", "metadata": {"name": "a", "namespace": "shop"}, "data": {"x": value}}
            replace_items(store(location, name, []), {"secrets/namespaces/shop/a": orjson.dumps(obj)})
        for words in (
            ["show", "b1", "secrets/a"],
            ["diff", "b1", "b2"],
            ["diff", "b1", "b2", "--full"],
            ["search", "b1", "hunter", "--content"],
        ):
            run(["backup", *words])
            assert "hunter" not in capsys.readouterr().out, words

    @pytest.mark.parametrize("annotation", sorted(COPIES))
    def test_copies_in_annotations_are_hidden(self, location: Path, capsys: Printed, annotation: str) -> None:
        for name, value in (("b1", "hunter2"), ("b2", "hunter3")):
            obj = secret("a", password=value)
            obj["metadata"]["annotations"] = {annotation: f'{{"stringData":{{"password":"{value}"}}}}'}
            store(location, name, [obj])
        for words in (
            ["show", "b1", "secret/a"],
            ["diff", "b1", "b2"],
            ["diff", "b1", "b2", "--full"],
            ["search", "b1", "hunter", "--content"],
        ):
            run(["backup", *words])
            assert "hunter" not in capsys.readouterr().out, words


class TestDiff:
    def test_fields_that_differ_are_named(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [config_map("a", x="1"), config_map("gone"), config_map("same")])
        new = [config_map("a", x="2", y="3", version="9"), config_map("new"), config_map("same", version="7")]
        store(location, "b2", new)

        assert printed(capsys, "backup", "diff", "b1", "b2", code=1).splitlines() == [
            "~ configmaps/a in shop",
            '    ~ data.x: "1" -> "2"',
            '    + data.y: "3"',
            "- configmaps/gone in shop",
            "+ configmaps/new in shop",
            "1 added, 1 removed, 1 changed",
        ]
        assert printed(capsys, "backup", "diff", "b1", "b2", "--name-only", code=1).splitlines() == [
            "~ configmaps/a in shop",
            "- configmaps/gone in shop",
            "+ configmaps/new in shop",
        ]
        full = printed(capsys, "backup", "diff", "b1", "b2", "--full", code=1)
        assert "-  x: '1'\n+  x: '2'\n" in full
        assert printed(capsys, "backup", "diff", "b1", "b1") == ""

    def test_the_order_of_keys_and_the_server_s_fields_do_not_count(
        self, location: Path, capsys: Printed
    ) -> None:
        store(location, "b1", [config_map("a", x="1", y="2")])
        changed = config_map("a", y="2", x="1", version="2")
        changed["metadata"]["generation"] = 7
        store(location, "b2", [changed])
        assert printed(capsys, "backup", "diff", "b1", "b2") == ""
        assert "generation" in printed(capsys, "backup", "diff", "b1", "b2", "--all-fields", code=1)

    def test_equal_objects_are_not_read_from_the_tarball(self, location: Path, capsys: Printed) -> None:
        objects = [config_map(f"n{number}") for number in range(50)]
        for name in ("b1", "b2"):
            directory = store(location, name, objects)
            (directory / f"{name}.tar.gz").write_bytes(b"")
        assert printed(capsys, "backup", "diff", "b1", "b2") == ""

    @pytest.mark.parametrize(("variable", "is_coloured"), [("CLICOLOR_FORCE", True), ("NO_COLOR", False)])
    def test_lines_are_coloured_by_their_sign_only_where_colour_is_wanted(
        self,
        variable: str,
        is_coloured: bool,
        location: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Printed,
    ) -> None:
        store(location, "b1", [config_map("gone")])
        store(location, "b2", [config_map("new\x1b[31m")])
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv(variable, "1")

        assert run(["backup", "diff", "b1", "b2"]) == 1

        out = capsys.readouterr().out
        assert ("\x1b[32m+ configmaps/new" in out, "\x1b[31m- configmaps/gone" in out) == (is_coloured,) * 2
        assert ("\x1b" in out) == is_coloured
        assert "new\x1b[31m" not in out

    def test_the_exit_code_of_an_error_is_2(self, location: Path, capsys: Printed) -> None:
        store(location, "b1", [])
        for words in (["b1", "b9"], ["b1"], ["b1", "b1", "--cluster"]):
            assert run(["backup", "diff", *words]) == 2


def test_history_names_appearance_changes_and_removal(location: Path, capsys: Printed) -> None:
    for day, objects in enumerate(
        ([], [config_map("a", x="1")], [config_map("a", x="1", version="2")], [config_map("a", x="2")], [])
    ):
        store(location, f"b{day}", objects, day=day, index=day != 3)

    found = data(capsys, "history", "cm/a", "-n", "shop")

    assert [(step["backup"], step["change"]) for step in found] == [
        ("b1", "added"),
        ("b3", "changed"),
        ("b4", "removed"),
    ]
    assert found[1]["fields"] == ['~ data.x: "1" -> "2"']


def test_history_reads_indexes_and_only_the_object_that_changed(location: Path, capsys: Printed) -> None:
    others = [config_map(f"n{number}") for number in range(5)]
    for day, value in enumerate("1112"):
        directory = store(location, f"b{day}", [*others, config_map("a", x=value)], day=day)
        if day in (0, 1):
            (directory / f"b{day}.tar.gz").write_bytes(b"")

    unchanged = data(capsys, "history", "cm/n3", "-n", "shop")
    changed = data(capsys, "history", "cm/a", "-n", "shop")

    assert [step["backup"] for step in unchanged] == ["b0"]
    assert [(step["backup"], step["change"]) for step in changed] == [("b0", "added"), ("b3", "changed")]


def test_an_unreadable_backup_is_left_out_of_history_and_search(location: Path, capsys: Printed) -> None:
    for day, value in enumerate("1123"):
        directory = store(location, f"b{day}", [config_map("a", x=value)], day=day)
        if day == 1:
            for file in directory.glob("b1*"):
                file.unlink()
        if day == 2:
            (directory / "b2.tar.gz").unlink()

    assert run(["history", "cm/a", "-n", "shop", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    steps = json.loads(out)
    assert [(step["backup"], step["change"]) for step in steps] == [
        ("b0", "added"),
        ("b2", "changed"),
        ("b3", "changed"),
    ]
    assert "the fields cannot be compared: backup b2 has no" in steps[2]["fields"][0]
    assert err.count("Backup b1 is left out: ") == 1

    assert run(["backup", "search", "--all", "3", "--content", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == "b3: configmaps/a\n"
    assert [f"Backup b{number} is left out: " in err for number in (1, 2)] == [True, True]
    assert run(["backup", "search", "b1", "3"]) == 1


@pytest.mark.parametrize(
    ("namespace", "end"), [("blog", "in namespace blog\n"), ("blgo", "; did you mean -n blog?\n")]
)
def test_a_given_namespace_without_such_objects_is_not_suggested(
    location: Path, capsys: Printed, namespace: str, end: str
) -> None:
    store(location, "b1", [config_map("a"), secret("key", "blog")])
    assert run(["backup", "show", "b1", "cm/a", "-n", namespace]) == 1
    assert capsys.readouterr().err.endswith(end)


def test_only_some_names_are_compared_with_a_misspelt_one(
    location: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(location, "b1", [config_map("first"), config_map("second")])
    assert run(["backup", "show", "b1", "cm/secnod"]) == 1
    assert capsys.readouterr().err.endswith("; did you mean cm/second?\n")
    monkeypatch.setattr("pinnace.cli.browse.opening._MOST_COMPARED", 1)
    assert run(["backup", "show", "b1", "cm/secnod"]) == 1
    assert "did you mean" not in capsys.readouterr().err


def test_search_looks_at_names_labels_and_content(location: Path, capsys: Printed) -> None:
    store(location, "b1", [config_map("web", image="registry/web:1.2")])
    store(location, "b2", [config_map("db", image="registry/db:9")])
    assert {hit["path"] for hit in data(capsys, "backup", "search", "b1", "WEB")} == {
        "metadata.name",
        "metadata.labels.app",
    }
    hits = data(capsys, "backup", "search", "--all", "registry/", "--content")
    assert [(hit["backup"], hit["path"]) for hit in hits] == [("b1", "data.image"), ("b2", "data.image")]
    assert printed(capsys, "backup", "search", "--all", "nowhere", code=1) == ""


def test_many_items_are_printed_as_they_come(
    location: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.cli.browse.listing.SORTED_UP_TO", 100)
    store(location, "b1", [config_map(f"n{number:04}") for number in range(300)])
    assert len(printed(capsys, "backup", "ls", "b1", "-o", "name").split()) == 300
    as_json, as_yaml = (printed(capsys, "backup", "ls", "b1", "-o", form) for form in ("json", "yaml"))
    assert [item["name"] for item in json.loads(as_json)] == [f"n{number:04}" for number in range(300)]
    assert read_large_yaml(as_yaml) == json.loads(as_json)
    monkeypatch.setattr("pinnace.cli.browse.listing.SORTED_UP_TO", 10_000)
    assert printed(capsys, "backup", "ls", "b1", "-o", "json") == as_json
    assert json.loads(printed(capsys, "backup", "ls", "b1", "pods", "-o", "json")) == []


def test_a_damaged_tarball_is_an_error_in_one_line(location: Path, capsys: Printed) -> None:
    store(location, "b1", [config_map("a")])
    tarball = location / "backups/b1/b1.tar.gz"
    tarball.write_bytes(gzip.compress(b"x" * 600))
    assert run(["backup", "show", "b1", "cm/a"]) == 1
    err = capsys.readouterr().err
    assert "cannot be read" in err
    assert orjson.dumps(err).count(b"Traceback") == 0


def replace_items(directory: Path, items: dict[str, bytes]) -> None:
    """Give a backup a tarball of its own, without an index: contents by their paths below `resources`."""
    with tarfile.open(directory / f"{directory.name}.tar.gz", "w:gz") as archive:
        for path, content in items.items():
            member = tarfile.TarInfo(f"resources/{path}.json")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    (directory / f"{directory.name}-pinnace-index.json.gz").unlink()


@pytest.mark.parametrize(
    ("second", "advice"),
    [
        ("deployments.apps/namespaces/blog/web", "give -n NAMESPACE"),
        ("deployments.example.com/namespaces/shop/web", "give the type with its group, KIND.GROUP"),
    ],
    ids=["namespaces", "groups"],
)
def test_a_name_of_several_objects_is_refused_with_advice(
    location: Path, capsys: Printed, second: str, advice: str
) -> None:
    directory = store(location, "b1", [])
    replace_items(directory, {"deployments.apps/namespaces/shop/web": b"{}", second: b"{}"})

    assert run(["backup", "show", "b1", "deployments/web"]) == 1

    assert capsys.readouterr().err.endswith(f"; {advice}\n")


def test_search_names_the_items_that_it_could_not_read(location: Path, capsys: Printed) -> None:
    too_deep = b'{"a":' * 2000 + b'"needle"' + b"}" * 2000
    directory = store(location, "b1", [])
    replace_items(directory, {"configmaps/namespaces/shop/deep": too_deep, "pods/namespaces/shop/a": b"{}"})

    assert run(["backup", "search", "b1", "needle", "--content"]) == 1

    assert "can be read: configmaps/deep in shop (backup b1).\n" in capsys.readouterr().err
