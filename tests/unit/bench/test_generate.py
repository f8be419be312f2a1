"""The generator makes the promised objects, the same every time."""

import collections
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.floor.generate import SHARES, CreateRequest, Generator, _text_pool


def everything(generator: Generator) -> list[CreateRequest]:
    return [*generator.foundation(), *generator.accounts(), *generator.objects()]


def test_the_same_seed_gives_the_same_bytes() -> None:
    first = everything(Generator(300, 7))
    _text_pool.cache_clear()
    assert everything(Generator(300, 7)) == first
    assert everything(Generator(300, 7, seed=1)) != first


def test_objects_can_be_generated_again_by_the_same_generator() -> None:
    generator = Generator(100, 3)
    assert list(generator.objects()) == list(generator.objects())


@given(st.integers(1, 60), st.integers(0, 60))
def test_counts_and_names(namespaces: int, more: int) -> None:
    generator = Generator(namespaces + more, namespaces)
    made = [*generator.accounts(), *generator.objects()]
    assert len(made) == namespaces + more
    assert len({(each.path, json.loads(each.body)["metadata"]["name"]) for each in made}) == len(made)
    assert {each.path.split("/namespaces/")[1].split("/")[0] for each in made} == set(generator.namespaces)


def test_kinds_occur_as_often_as_their_shares_say() -> None:
    assert sum(share.thousandths for share in SHARES) == 1000
    generator = Generator(10_000, 1)
    counts = collections.Counter(each.path for each in generator.objects())
    wanted: collections.Counter[str] = collections.Counter()
    for share in SHARES:
        wanted[share.path.format("bench-000")] += share.thousandths * 10
    for path, number in wanted.items():
        assert counts[path] == pytest.approx(number, rel=0.15), path


def test_sizes_are_those_of_real_clusters() -> None:
    sizes = collections.defaultdict(list)
    for each in Generator(10_000, 1).objects():
        sizes[each.path.rpartition("/")[2]].append(len(each.body))
    small = sorted(sizes["configmaps"])[len(sizes["configmaps"]) // 2]
    assert 2_000 < small < 3_500
    assert max(sizes["configmaps"]) > 100_000
    assert all(size < 1_000_000 for kind in sizes.values() for size in kind)


def test_every_namespace_needs_an_object() -> None:
    with pytest.raises(ValueError, match="an object for each"):
        Generator(4, 5)
