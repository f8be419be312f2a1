"""The context of one run of an engine, for tests that start engines themselves."""

from pathlib import Path
from typing import Any, cast

from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.installed import NO_PLUGINS
from pinnace.runs.context import RunContext
from pinnace.storage.backup_store import BackupStore


def run_context(
    store: BackupStore, client: object, discovery: Discovery, workdir: Path, **more: Any
) -> RunContext:
    """A context without plugins, unless `plugins` is among the rest; `client` may be a fake."""
    cluster = cast(KubeClient, client)
    plugins = more.pop("plugins", None) or NO_PLUGINS.operation(client=cluster, namespace="velero")
    return RunContext(
        client=cluster, discovery=discovery, store=store, plugins=plugins, workdir=workdir, **more
    )
