"""Rules: which request a fault strikes. Pure, no server."""

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from hack.cluster.faults import (
    CutBeforeRequest,
    ExpireContinue,
    Pass,
    RequestHead,
    RuleList,
    expired,
    inconsistent_token,
    server_fault,
    too_many_requests,
    watch_expired,
)

CUT = CutBeforeRequest()


def head(method: str = "GET", path: str = "/api/v1/pods", **query: str) -> RequestHead:
    return RequestHead(method, path, query)


def struck(rules: RuleList, *heads: RequestHead) -> list[bool]:
    return [rules.choose(each) is not None for each in heads]


@pytest.mark.parametrize(
    ("conditions", "request_head", "strikes"),
    [
        pytest.param({}, head(), True, id="no condition matches all"),
        pytest.param({"method": "POST|PATCH"}, head("PATCH"), True, id="method alternative"),
        pytest.param({"method": "POST|PATCH"}, head("GET"), False, id="other method"),
        pytest.param({"method": "PU"}, head("PUT"), False, id="method is matched whole"),
        pytest.param({"method": "get"}, head("GET"), True, id="method in any case"),
        pytest.param({"path": "/pods$"}, head(), True, id="path found anywhere"),
        pytest.param({"path": "^/pods"}, head(), False, id="path anchored"),
        pytest.param({"query": {"watch": "1|true"}}, head(watch="true"), True, id="query matches"),
        pytest.param({"query": {"watch": "1|true"}}, head(watch="0"), False, id="query has other value"),
        pytest.param({"query": {"watch": ""}}, head(), False, id="query parameter missing"),
        pytest.param({"method": "GET", "path": "/secrets"}, head(), False, id="all conditions must hold"),
    ],
)
def test_a_rule_matches_only_requests_that_meet_all_conditions(
    conditions: dict[str, str], request_head: RequestHead, strikes: bool
) -> None:
    rules = RuleList()
    rules.add(CUT, **conditions)  # type: ignore[arg-type]  # a table of keyword arguments

    assert struck(rules, request_head) == [strikes]


def test_skip_and_times_pick_the_nth_request() -> None:
    rules = RuleList()
    rule = rules.add(CUT, path="/pods$", skip=2, times=1)

    requests = [head(), head(path="/version"), head(), head(), head()]

    assert struck(rules, *requests) == [False, False, False, True, False]
    assert (rule.matches_seen, rule.hits) == (4, 1)


def test_first_rule_that_strikes_decides() -> None:
    rules = RuleList()
    shield = rules.add(Pass(), path="/api/v1/namespaces$")
    once = rules.add(too_many_requests(), times=1)
    always = rules.add(CUT)

    chosen = [rules.choose(head(path="/api/v1/namespaces")), rules.choose(head()), rules.choose(head())]

    assert chosen == [shield, once, always]


def test_probability_is_repeatable_and_about_right() -> None:
    def run(seed: int) -> list[bool]:
        rules = RuleList(seed=seed)
        rules.add(CUT, probability=0.3)
        return struck(rules, *[head()] * 1000)

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert 250 < sum(run(1)) < 350


def test_a_removed_rule_no_longer_strikes_and_releases_its_requests() -> None:
    rules = RuleList()
    rule = rules.add(CUT)
    rules.clear()

    assert struck(rules, head()) == [False]
    assert rule.released.is_set()


async def test_struck_waits_for_the_first_hit() -> None:
    rules = RuleList()
    rule = rules.add(CUT)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(rule.struck())
        rules.choose(head())

    assert waiter.done()
    with pytest.raises(TimeoutError):
        await rules.add(CUT).struck(timeout_seconds=0)


def encode(token: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")


def decode(token: str) -> dict[str, object]:
    decoded: dict[str, object] = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return decoded


def test_expire_continue_only_strikes_continued_lists() -> None:
    rules = RuleList()
    rules.add(ExpireContinue(offer_token=True))

    assert struck(rules, head(), head(limit="5"), RequestHead("GET", "/", {"continue": "x"})) == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("key", ["pods/a", "pods/ab", "pods/abc"])
def test_offered_token_keeps_the_key_and_drops_the_version(key: str) -> None:
    token = encode({"v": "meta.k8s.io/v1", "rv": 41, "start": key})

    offered = inconsistent_token(token)

    assert decode(offered) == {"v": "meta.k8s.io/v1", "rv": -1, "start": key}
    assert not offered.endswith("=")


@pytest.mark.parametrize("offer", [True, False])
def test_an_expired_token_is_answered_as_by_the_server(offer: bool) -> None:
    token = encode({"v": "meta.k8s.io/v1", "rv": 41, "start": "pods/a"})

    answer = expired(ExpireContinue(offer_token=offer), token)

    status = json.loads(answer.body)
    assert (answer.status, status["code"], status["reason"]) == (410, 410, "Expired")
    assert ("continue" in status["metadata"]) is offer


def test_ready_made_answers_have_the_status_and_body_of_the_server() -> None:
    throttled = too_many_requests(retry_after_seconds=7)
    assert (throttled.status, throttled.headers["Retry-After"]) == (429, "7")
    assert "Retry-After" not in too_many_requests(retry_after_seconds=None).headers
    assert json.loads(server_fault().body)["reason"] == "InternalError"
    assert server_fault(503).status == 503
    event = json.loads(watch_expired().body)
    assert (watch_expired().status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)
