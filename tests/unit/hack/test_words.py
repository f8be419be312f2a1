from hack.checks.words import problems


def test_a_pattern_over_its_limit_is_named_with_its_places_also_across_lines() -> None:
    clause = '"""The zone in\n    # which a disk is."""\n'
    texts = [("a.py", f"\n{clause}"), ("b.md", "Amend it; the index is written Anew.\n")]

    assert problems(texts) == ["1 places, 0 at most:", "b.md:1: 'Anew'"]
    assert problems([("a.py", clause * 13)])[:2] == ["13 places, 12 at most:", "a.py:1: 'in # which'"]
