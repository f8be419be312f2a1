"""Habits of kubectl against a real API server: watches, traces of requests, kinds that are not served."""

import asyncio

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from tests.e2e.without_server.command import Pinnace, Running

SECONDS = 120.0
"""How long a line may take; on an idle machine none needs a second."""
BACKUPS = velero("backups")


def backup(name: str, phase: str = "New") -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": name},
        "spec": {},
        "status": {"phase": phase, "startTimestamp": "2026-11-01T00:00:00Z"},
    }


async def next_line(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(SECONDS):
        return (await stream.readline()).decode()


async def next_row(running: Running) -> list[str]:
    """The first two cells of the next line."""
    return (await next_line(running.process.stdout)).split()[:2]


@pytest.mark.found("op-17")
async def test_get_follows_the_objects_until_it_is_interrupted(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    await client.create(BACKUPS, backup("first"), namespace)
    table = await command.start("backup", "get", "-w")
    assert [await next_row(table), await next_row(table)] == [["NAME", "STATUS"], ["first", "New"]]

    await client.create(BACKUPS, backup("second-with-a-long-name"), namespace)
    assert await next_row(table) == ["second-with-a-long-name", "New"]
    # A change that the row does not show is no new row.
    await client.patch(BACKUPS, "first", {"metadata": {"labels": {"a": "b"}}}, namespace)
    await client.patch(BACKUPS, "first", {"status": {"phase": "InProgress"}}, namespace)
    assert await next_row(table) == ["first", "InProgress"]
    await client.delete(BACKUPS, "first", namespace)
    assert await next_line(table.process.stderr) == "backup first was deleted\n"
    table.interrupt()

    ended = await table.finish()
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "")


@pytest.mark.found("op-17")
@pytest.mark.parametrize(
    ("form", "sign"),
    [("json", '"phase": "Failed"'), ("yaml", "phase: Failed"), ("wide", "Failed"), ("name", "backup.velero")],
)
async def test_each_form_can_be_followed(
    client: KubeClient, namespace: str, command: Pinnace, form: str, sign: str
) -> None:
    await client.create(BACKUPS, backup("one"), namespace)
    await client.create(BACKUPS, backup("other"), namespace)
    followed = await command.start("get", "backup/one", "-w", "-o", form, "--no-headers")
    first = await next_line(followed.process.stdout)
    assert "NAME" not in first
    await client.patch(BACKUPS, "one", {"status": {"phase": "Failed"}}, namespace)
    while sign not in (line := await next_line(followed.process.stdout)):
        assert line != ""
    followed.interrupt()
    assert (await followed.finish()).code == 130


async def test_a_watch_of_what_is_not_there_is_an_error(command: Pinnace, velero_crds: None) -> None:
    ended = await command("backup", "get", "nope", "--watch")

    assert ended.code == 1
    assert '"nope" not found' in ended.err


@pytest.mark.found("op-37")
async def test_requests_are_traced_without_credentials_and_bodies(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    await client.create(BACKUPS, backup("one", "Completed"), namespace)

    quiet = await command("backup", "get", "-v=5")
    traced = await command("backup", "get", "-v=6")
    full = await command("-v", "9", "backup", "get")

    assert quiet.err == ""
    lines = traced.err.splitlines()
    assert all(" 200 OK in " in line and line.endswith(" ms") for line in lines)
    assert f"/apis/velero.io/v1/namespaces/{namespace}/backups?" in lines[0]
    assert traced.out == quiet.out == full.out
    assert "    Authorization: [not shown]\n" in full.err or "Authorization" not in full.err
    assert "Response headers:\n" in full.err
    assert "startTimestamp" not in full.err
    for answer in (traced, full):
        assert "Bearer" not in answer.err


@pytest.mark.found("op-29", "op-33")
async def test_kinds_are_checked_before_a_request_is_sent(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    await client.create(BACKUPS, backup("one", "Completed"), namespace)

    refused = await command("backup", "create", "b", "--include-resources", "deploymnets,pods")
    planned = await command(
        "schedule", "create", "s", "--schedule", "@daily", "--include-resources", "deploymnets"
    )
    pattern = await command("backup", "create", "c", "--include-resources", "deploymnet*,po,pods")

    assert refused.code == 1
    assert "serves no resource 'deploymnets'; did you mean deployments" in refused.err
    assert planned.code == 0
    assert "WARNING: the cluster serves no resource 'deploymnets'" in planned.err
    assert pattern.code == 0
    assert {each["metadata"]["name"] for each in await client.list_all(BACKUPS, namespace)} == {"one", "c"}


@pytest.mark.found("op-39", "op-14")
async def test_lists_are_sorted_and_have_no_headers(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    for name, errors in (("a", 10), ("b", 2), ("c", None)):
        await client.create(
            BACKUPS, {**backup(name), "status": {"errors": errors} if errors else {}}, namespace
        )

    rows = await command("backup", "get", "--sort-by", "{.status.errors}", "--no-headers")
    names = await command("backup", "get", "--sort-by=.status.errors", "-o", "name")

    assert [line.split()[0] for line in rows.lines] == ["c", "b", "a"]
    assert names.lines == ["backup.velero.io/c", "backup.velero.io/b", "backup.velero.io/a"]
    described = await command("backup", "describe", *names.lines)
    assert described.out.count("Name:") >= 3
