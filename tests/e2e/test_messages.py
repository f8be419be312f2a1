"""A server process tells a webhook what failed, once, also after a kill; and Kubernetes by an Event."""

import asyncio
import base64
import json

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUPS, CONFIGMAPS, EVENTS, SECRETS
from tests.support.servers.homes import ALONE, Home, NewServer
from tests.support.waiting import eventually


async def test_a_failed_backup_is_told_once_though_the_server_is_killed(
    client: KubeClient, home: Home, new_server: NewServer
) -> None:
    told: list[dict[str, str]] = []

    async def hook(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        event = json.loads(await reader.readexactly(length))
        told.append({"type": event["type"], "subject": event["subject"], "cluster": event["data"]["cluster"]})
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(hook, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    document = f"cluster: prod\nsinks: [{{name: ops, webhook: {{url: 'http://127.0.0.1:{port}/'}}}}]"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "messages", "labels": {"pinnace.io/messages": "true"}},
        "data": {"messages.yaml": base64.b64encode(document.encode()).decode()},
    }
    await client.create(SECRETS, secret, home.namespace)
    server = await new_server(ALONE)

    async def has_ledger() -> bool:
        names = [each["metadata"]["name"] for each in await client.list_all(CONFIGMAPS, home.namespace)]
        return f"pinnace-messages-{home.namespace}" in names

    await eventually(has_ledger)
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "b"},
        "spec": {"storageLocation": "nowhere"},
    }
    await client.create(BACKUPS, backup, home.namespace)

    async def is_told() -> bool:
        return bool(told)

    await eventually(is_told)
    await server.kill()
    await new_server(ALONE)

    async def has_event() -> bool:
        events = await client.list_all(EVENTS, home.namespace)
        return [each["reason"] for each in events if each["involvedObject"]["name"] == "b"] == ["Failure"]

    await eventually(has_event)
    marked = await client.get(BACKUPS, "b", home.namespace)
    assert "pinnace.io/problem-failure" in marked["metadata"]["annotations"]
    assert told == [
        {"type": "io.pinnace.failure.problem", "subject": f"Backup {home.namespace}/b", "cluster": "prod"}
    ]
    listener.close()
