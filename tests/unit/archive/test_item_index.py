"""The index beside a tarball: it says where each item lies, and is hostile input when it is read."""

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from pinnace.archive.content import checksum_of, facts_of, facts_of_foreign
from pinnace.archive.item_index import DamagedIndex, IndexedItem, IndexParser
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from tests.support.clock import FakeClock
from tests.unit.archive.helpers import entries

HEAD = b'{"pinnaceIndex":2}\n'
OLD_HEAD = b'{"pinnaceIndex":1}\n'
MEMBER = b'{"member":0,"length":9}\n'
PART = b'{"part":4,"length":5}\n'
ITEM = b'["pods","v1-preferredversion","ns","a","v1","Pod","u","1",null,2,"%b",512]\n' % (b"0" * 64)
END = b'{"items":1,"size":9}\n'


def stored(
    name: str, *, version: str = "7", labels: str = '{"a":"b"}', managed: str = "m", text: str = "x"
) -> bytes:
    """An object of a built-in type as the API server writes it."""
    fields = '{"f:data":{".":{},"k:{\\"p\\":[1]}":{}}}'
    return (
        f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}",'
        f'"resourceVersion":"{version}","creationTimestamp":"2021-08-11T21:43:26Z","labels":{labels},'
        f'"managedFields":[{{"manager":"{managed}","fieldsV1":{fields}}}]}},"data":{{"k":"{text}"}}}}'
    ).encode()


def sorted_form(content: bytes) -> bytes:
    return orjson.dumps(orjson.loads(content), option=orjson.OPT_SORT_KEYS)


def parse(data: bytes, size: int = 1000) -> list[IndexedItem]:
    parser = IndexParser()
    found = [
        entry
        for at in range(0, len(data), size)
        for batch in parser.feed(data[at : at + size])
        for entry in batch
    ]
    parser.finish()
    return found


async def write(folder: Path, count: int = 1500) -> tuple[bytes, bytes, dict[str, bytes]]:
    contents = {f"n{number}": stored(f"n{number}", text="x" * 2000) for number in range(count)}
    heads = ["resources/configmaps/v1-preferredversion/namespaces/ns/", "resources/configmaps/namespaces/ns/"]
    directories = [MemberDirectory(head) for head in heads]
    async with ArchiveWriter(folder / "a.tar.gz", clock=FakeClock(), index=folder / "i.gz") as writer:
        for name, content in contents.items():
            writer.add_copies(directories, f"{name}.json", content[:5], content[5:])
            await writer.flush_if_full()
    return (folder / "a.tar.gz").read_bytes(), (folder / "i.gz").read_bytes(), contents


@pytest.mark.found("P5")
async def test_each_item_is_found_by_one_span_alone(tmp_path: Path) -> None:
    tarball, index, contents = await write(tmp_path)

    found = parse(index)

    assert [entry.name for entry in found] == list(contents)
    spans = {entry.span for entry in found}
    assert len(spans) > 3
    assert [span.is_part for span in sorted(spans)] == [False] + [True] * (len(spans) - 1)
    texts = {}
    for span in spans:
        stored_bytes = tarball[span.offset : span.offset + span.length]
        texts[span] = zlib.decompressobj(-15 if span.is_part else 31).decompress(stored_bytes)
    for entry in found:
        content = texts[entry.span][entry.offset : entry.offset + entry.size_bytes]
        assert content == contents[entry.name]
        assert entry.checksum == checksum_of(content)
    first = found[0]
    assert first.location == ("configmaps", "v1-preferredversion", "ns", "n0")
    assert (first.api_version, first.kind, first.uid) == ("v1", "ConfigMap", "u-n0")
    assert (first.resource_version, first.labels) == ("7", {"a": "b"})


async def test_a_discarded_archive_leaves_no_index(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with ArchiveWriter(tmp_path / "a", clock=FakeClock(), index=tmp_path / "i"):
            raise KeyError
    assert entries(tmp_path) == []


class TestChecksum:
    @pytest.mark.parametrize("form", [bytes, sorted_form], ids=["API server's", "sorted"])
    def test_ignores_resource_version_and_managed_fields_alone(self, form: type[bytes]) -> None:
        same = checksum_of(form(stored("a")))

        assert checksum_of(form(stored("a", version="8", managed="n"))) == same
        assert checksum_of(form(stored("a", text="y"))) != same
        assert checksum_of(form(stored("a", labels='{"a":"c"}'))) != same

    @pytest.mark.parametrize("form", [bytes, sorted_form], ids=["API server's", "sorted"])
    def test_facts_are_the_same_in_both_forms(self, form: type[bytes]) -> None:
        assert astuple(facts_of(form(stored("a"))))[:5] == (
            b'"v1"',
            b'"ConfigMap"',
            b'"u-a"',
            b'"7"',
            b'{"a":"b"}',
        )

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"metadata":7}', b"[" * 100_000], ids=range(7)
    )
    def test_bytes_that_are_no_object_have_only_a_checksum(self, content: bytes) -> None:
        assert astuple(facts_of_foreign(content))[:5] == (b'""', b'""', b'""', b'""', b"null")

    def test_foreign_bytes_cannot_break_a_line(self) -> None:
        for labels in ('{"a"}', "{]", '{"a":"\udcff"}', '{"a":\n"b"}', '{"a":"\n"}'):
            content = stored("a").replace(b'{"a":"b"}', labels.encode("utf-8", "surrogateescape"))
            for text in astuple(facts_of_foreign(content))[:5]:
                assert isinstance(json.loads(text), str | dict | None)
                assert b"\n" not in text


TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        '}]},"spec":',
        "}]}",
        '"}}',
        "]}",
        '},"managedFields":[{',
        "\\",
        '\\"}}',
        '[{"a":[]}]',
        "managedFields",
        "}}",
        "{",
    ]
)
MANAGED = st.lists(
    st.fixed_dictionaries({"manager": TEXTS, "fieldsV1": st.dictionaries(TEXTS, st.just({}), max_size=3)}),
    min_size=1,
    max_size=2,
)
METADATA = st.fixed_dictionaries(
    {
        "name": st.just("n"),
        "uid": st.just("u"),
        "resourceVersion": st.sampled_from(["1", "23"]),
        "creationTimestamp": st.just("2021-08-11T21:43:26Z"),
    },
    optional={
        "labels": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=2),
        "annotations": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
        "ownerReferences": st.lists(st.fixed_dictionaries({"name": TEXTS}), min_size=1, max_size=2),
        "finalizers": st.lists(TEXTS, min_size=1, max_size=2),
        "managedFields": MANAGED,
    },
)
OBJECTS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": METADATA},
    optional={"spec": st.fixed_dictionaries({}, optional={"metadata": METADATA, "managedFields": MANAGED})},
)


def without_versions(obj: dict[str, Any]) -> bytes:
    left_out = {"resourceVersion", "managedFields"}
    metadata = {key: None if key in left_out else value for key, value in obj["metadata"].items()}
    return orjson.dumps({**obj, "metadata": metadata})


@given(OBJECTS, OBJECTS | st.none(), METADATA)
@settings(max_examples=3 * settings().max_examples)
def test_checksums_are_equal_for_the_same_object_and_for_no_other(
    first: dict[str, Any], second: dict[str, Any] | None, later: dict[str, Any]
) -> None:
    if second is None:  # the same object, written again
        changed = {"resourceVersion": later["resourceVersion"]}
        if "managedFields" in first["metadata"]:
            changed["managedFields"] = later.get("managedFields", [{"manager": "m"}])
        second = {**first, "metadata": {**first["metadata"], **changed}}

    is_same = without_versions(first) == without_versions(second)

    assert (checksum_of(orjson.dumps(first)) == checksum_of(orjson.dumps(second))) is is_same

    # As the API server writes custom resources.
    is_same = sorted_form(without_versions(first)) == sorted_form(without_versions(second))
    contents = [sorted_form(orjson.dumps(obj)) for obj in (first, second)]
    assert (checksum_of(contents[0]) == checksum_of(contents[1])) is is_same


@given(OBJECTS, st.binary(max_size=30))
@settings(max_examples=2 * settings().max_examples)
def test_facts_are_those_of_the_object_wherever_it_lies_in_the_data(
    obj: dict[str, Any], around: bytes
) -> None:
    content = orjson.dumps(obj)

    facts = facts_of(around + content + around, len(around), len(around) + len(content))

    metadata = obj["metadata"]
    assert orjson.loads(facts.labels) == metadata.get("labels")
    assert orjson.loads(facts.resource_version) == metadata["resourceVersion"]
    assert (orjson.loads(facts.kind), orjson.loads(facts.uid)) == (obj["kind"], metadata["uid"])
    assert facts == facts_of(content)


@pytest.mark.parametrize("form", [bytes, sorted_form], ids=["API server's", "sorted"])
def test_checksum_is_the_same_when_only_one_of_two_versions_can_be_scanned(form: type[bytes]) -> None:
    def written(manager: str) -> bytes:
        metadata = {
            "name": "n",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2021",
            "managedFields": [{"manager": manager, "fieldsV1": {}}],
        }
        return form(orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}))

    # The text of the second looks like the end of managedFields, so that it is decoded.
    assert checksum_of(written("m")) == checksum_of(written("}]}"))


@pytest.mark.parametrize("form", [bytes, sorted_form], ids=["API server's", "sorted"])
@pytest.mark.parametrize("value", ["d", "{"], ids=["scanned", "decoded"])
@pytest.mark.parametrize("size", [0, 1500, 2047, 2048, 5000, 70_000])
@pytest.mark.parametrize("large", ["annotations", "data"])
def test_facts_do_not_depend_on_how_they_are_found(
    form: type[bytes], value: str, size: int, large: str
) -> None:
    managed = [{"manager": "m", "fieldsV1": {"k:[1]": {}}}]
    text = "y" * size
    metadata = {
        "name": "n",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 3,
        "creationTimestamp": "2021",
        "labels": {"a": "b"},
        "annotations": {"c": value, "x": text if large == "annotations" else ""},
        "managedFields": managed,
    }
    data = {"x": text if large == "data" else ""}
    content = form(orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "data": data}))
    covered = content.replace(b'"resourceVersion":"1"', b'"resourceVersion":')
    covered = covered.replace(form(orjson.dumps(managed)), b"")

    assert astuple(facts_of(content)) == (
        *(b'"v1"', b'"Pod"', b'"u"', b'"1"', b'{"a":"b"}'),
        hashlib.sha256(covered).hexdigest(),
    )


@pytest.mark.parametrize("member", ['"labels":{"a":"b"}', '"generateName":"x"'], ids=["labels", "text"])
@pytest.mark.parametrize(
    "managed", [',"managedFields":[{"manager":"m"}]', ""], ids=["managed", "not managed"]
)
def test_members_added_at_the_end_of_the_metadata_are_in_the_facts(member: str, managed: str) -> None:
    def written(member: str, image: str) -> bytes:
        return (
            '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","uid":"u","resourceVersion":"1",'
            f'"creationTimestamp":"2021","annotations":{{"c":"d"}}{managed},{member}}},'
            f'"spec":{{"managedFields":[{{"image":"{image}"}}]}}}}'
        ).encode()

    assert orjson.loads(facts_of(written(member, "x")).labels) == ({"a": "b"} if "labels" in member else None)
    assert checksum_of(written(member, "x")) != checksum_of(written(member, "y"))
    assert checksum_of(written(member, "x")) != checksum_of(written('"generateName":"y"', "x"))


def test_only_the_metadata_s_own_version_is_left_out_where_another_is_the_same() -> None:
    def written(version: str, inner: str) -> bytes:
        return (
            f'{{"apiVersion":"v1","kind":"K","data":{{"metadata":{{"resourceVersion":"{inner}"}}}},'
            f'"metadata":{{"name":"n","resourceVersion":"{version}"}}}}'
        ).encode()

    assert checksum_of(written("1", "1")) == checksum_of(written("2", "1"))
    assert checksum_of(written("1", "1")) != checksum_of(written("1", "2"))


def test_managed_fields_elsewhere_than_in_the_metadata_count() -> None:
    def written(manager: str) -> bytes:
        metadata = {
            "name": "n",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2021",
            "finalizers": ["f"],
        }
        spec = {"template": {"metadata": {"managedFields": [{"manager": manager}]}}, "x": 1}
        return orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    assert checksum_of(written("a")) != checksum_of(written("b"))


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (b"this is not gzip data", "not valid gzip"),
        (gzip.compress(HEAD + MEMBER + ITEM + END)[:-9], "cut off"),
        (gzip.compress(HEAD + MEMBER + ITEM), "cut off"),
        (gzip.compress(b'{"pinnaceIndex":3}\n'), "another format"),
        (gzip.compress(HEAD + ITEM + END), "outside"),
        (gzip.compress(HEAD + MEMBER + END), "0 items, but says 1"),
        (gzip.compress(HEAD + MEMBER + ITEM.replace(b"512", b"-1") + END), "malformed"),
        (gzip.compress(HEAD + MEMBER + ITEM.replace(b"512", b"9" * 19) + END), "malformed"),
        (gzip.compress(HEAD + MEMBER + ITEM.replace(b'"000', b'"00') + END), "malformed"),
        (gzip.compress(HEAD + MEMBER + END.replace(b"1,", b"0,") + ITEM), "outside"),
        (gzip.compress(HEAD + MEMBER.replace(b"9", b"-9") + END), "impossible"),
        (gzip.compress(HEAD + MEMBER + ITEM.replace(b'"a"', b"7") + END), "malformed"),
        (gzip.compress(HEAD + MEMBER + b"[" * 100_000 + b"\n"), "malformed"),
        (gzip.compress(HEAD + b'"x"\n'), "neither"),
        (gzip.compress(HEAD + MEMBER + ITEM + END) + b"more", "follows"),
        (gzip.compress(HEAD + b"x" * (5 << 20)), "a line has more"),
        (gzip.compress(HEAD + b"{}\n"), "neither"),
        (gzip.compress(HEAD + PART.replace(b"5", b"-5") + END), "impossible"),
        (gzip.compress(HEAD + PART.replace(b"4", b"9" * 18) + END), "impossible"),
    ],
    ids=range(19),
)
def test_a_damaged_or_hostile_index_is_refused(index: bytes, reason: str) -> None:
    with pytest.raises(DamagedIndex, match=reason):
        parse(index)


@pytest.mark.found("P5")
def test_an_index_of_the_first_format_is_read() -> None:
    (entry,) = parse(gzip.compress(OLD_HEAD + MEMBER + ITEM + END))
    assert entry.span == (0, 9, False)


def test_a_sound_index_is_read_in_pieces_of_any_size() -> None:
    index = gzip.compress(HEAD + MEMBER + ITEM + END)
    assert [parse(index, size) for size in (1, 7)] == [parse(index)] * 2


def test_an_index_that_is_compressed_too_well_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace.archive.item_index._RATIO_FROM_BYTES", 1 << 20)
    index = gzip.compress(HEAD + MEMBER * (3 << 16))
    with pytest.raises(DamagedIndex, match="times"):
        parse(index)


def test_a_piece_that_inflates_to_many_steps_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace.archive.item_index._INFLATE_BYTES", 64)
    index = gzip.compress(HEAD + MEMBER + ITEM * 50 + END.replace(b"1,", b"50,"))
    assert [len(parse(index, size)) for size in (len(index), 9)] == [50, 50]
