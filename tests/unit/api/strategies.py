"""Hypothesis strategies for values of the API."""

from hypothesis import strategies as st

from pinnace.api.selection.selectors import Operator, Requirement, Selector
from pinnace.api.values.durations import Duration

names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
label_values = st.one_of(
    st.just(""), st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", fullmatch=True)
)
label_keys = st.one_of(
    names,
    st.sampled_from(["in", "notin", "a", "b"]),
    st.builds(lambda prefix, name: f"{prefix}/{name}", st.sampled_from(["velero.io", "x"]), names),
)

durations = st.builds(Duration, st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))


def _requirements(key: str) -> st.SearchStrategy[Requirement]:
    sets = st.lists(label_values, min_size=1, max_size=4).map(tuple)
    numbers = st.integers(min_value=0, max_value=10**6).map(str)
    return st.one_of(
        st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]).map(lambda op: Requirement(key, op)),
        st.tuples(st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS]), label_values).map(
            lambda pair: Requirement(key, pair[0], (pair[1],))
        ),
        st.tuples(st.sampled_from([Operator.IN, Operator.NOT_IN]), sets).map(
            lambda pair: Requirement(key, pair[0], pair[1])
        ),
        st.tuples(st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]), numbers).map(
            lambda pair: Requirement(key, pair[0], (pair[1],))
        ),
    )


requirements = label_keys.flatmap(_requirements)
selectors = st.lists(requirements, max_size=4).map(Selector)
labels = st.dictionaries(label_keys, label_values, max_size=4)
