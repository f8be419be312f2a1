"""Draws the picture of a terminal in the README from the real program: `make picture`.

A control plane is started, a namespace with an application is made in it, and each command runs as a user
would type it. Its output becomes one SVG.
"""

import asyncio
import html
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import CONFIGMAPS, JOBS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, APIResource

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "terminal.svg"
COLUMNS = 96
NAMESPACE = "shop"
CRON_JOBS = replace(JOBS, name="cronjobs", kind="CronJob", short_names=("cj",), singular_name="cronjob")
COMMAND_SECONDS = 60.0
_CLUSTER = re.compile(r"https://127\.0\.0\.1:\d+ \(context \w+\)")
_SHOWN_CLUSTER = "https://prod.example.com (context prod)"
_CHARACTER_WIDTH = 12.2
_TEXT = re.compile(
    r'<text class="[^"]*-r\d+" x="[\d.]+" y="([\d.]+)" textLength="([\d.]+)"[^>]*>([^<]*)</text>'
)


def _object(resource: APIResource, name: str, **members: object) -> dict[str, object]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        **members,
    }


_REPORT = {
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "report", "image": "registry.example.com/report:1"}],
                "restartPolicy": "Never",
            }
        }
    }
}
APPLICATION = (
    (CONFIGMAPS, _object(CONFIGMAPS, "settings", data={"currency": "EUR"})),
    (SECRETS, _object(SECRETS, "database", stringData={"password": "secret"})),
    (
        CRON_JOBS,
        _object(CRON_JOBS, "report", spec={"schedule": "0 6 * * 1", "jobTemplate": _REPORT}),
    ),
)


async def _install(kubeconfig: Path, namespace: str) -> None:
    async with KubeClient(load_config(str(kubeconfig))) as client:
        await client.create(NAMESPACES, _object(NAMESPACES, namespace))
        for resource, obj in APPLICATION:
            await client.create(resource, obj, namespace)
        await _wait_until_complete(client, namespace)


async def _wait_until_complete(client: KubeClient, namespace: str) -> None:
    """Wait for what the control plane adds to a namespace."""
    for _ in range(300):
        added = await client.list_all(SERVICE_ACCOUNTS, namespace)
        if added and len(await client.list_all(CONFIGMAPS, namespace)) > 1:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the control plane did not complete the namespace {namespace}")


async def _break(kubeconfig: Path, namespace: str) -> None:
    """Delete objects, as an accident between backup and restore."""
    async with KubeClient(load_config(str(kubeconfig))) as client:
        await client.patch(CRON_JOBS, "report", {"spec": {"suspend": True}}, namespace)
        await client.delete(CONFIGMAPS, "settings", namespace)


def draw(kubeconfig: Path, folder: Path, namespace: str = NAMESPACE) -> str:
    """Run the commands and return the picture.

    Args:
        folder: home, and where the commands run; shown as `~`.
        namespace: the application's, made here.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    asyncio.run(_install(kubeconfig, namespace))
    _run(console, kubeconfig, folder, f"backup create before --include-namespaces {namespace}")
    console.print(Text("# Then its settings are deleted, and its report is suspended.", style="bright_black"))
    asyncio.run(_break(kubeconfig, namespace))
    _run(console, kubeconfig, folder, f"backup diff before --cluster -n {namespace}")
    _run(console, kubeconfig, folder, "restore create --from-backup before --dry-run")
    _run(console, kubeconfig, folder, "restore create --from-backup before --existing-resource-policy update")
    return console.export_svg(title="pinnace")


def _run(console: Console, kubeconfig: Path, folder: Path, words: str) -> None:
    """One command with its output, in the colours of a terminal."""
    console.print(Text(f"$ pinnace {words}", style="bold green"))
    environ = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PINNACE_LOCATION": "./backups",
        "CLICOLOR_FORCE": "1",
        "COLUMNS": str(COLUMNS),
        "HOME": str(folder),
    }
    program = [sys.executable, "-m", "pinnace.cli.main", *words.split()]
    ended = subprocess.run(
        program,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # Shortened before it is drawn: each text of the picture is stretched to the width that it had then.
    said = _CLUSTER.sub(_SHOWN_CLUSTER, ended.stdout.strip().replace(str(folder), "~"))
    console.print(Text.from_ansi(said))
    console.print()


def words(picture: str) -> list[str]:
    """The lines of a picture, without what differs from run to run: when, and how long it took.

    Raises:
        ValueError: a text is stretched, because it is not the one that was drawn.
    """
    lines: dict[str, str] = {}
    for top, width, text in _TEXT.findall(picture):
        shown = html.unescape(text).replace("\xa0", " ")
        if shown == "\n":
            continue  # what ends a line
        if abs(float(width) - len(shown) * _CHARACTER_WIDTH) > 0.1:
            raise ValueError(f"{shown!r} is stretched to {width}")
        lines[top] = lines.get(top, "") + shown
    return [
        re.sub(r"\b\d{14}\b", "TIME", re.sub(r"in [\d.]+s", "in SECONDS", line)) for line in lines.values()
    ]


def main() -> int:
    """Start a cluster, draw the picture, and stop the cluster."""
    with tempfile.TemporaryDirectory(prefix="pinnace-picture-") as folder:
        cluster = ControlPlane(Path(folder) / "cluster", name="picture")
        try:
            cluster.start()
            picture = draw(cluster.kubeconfig, Path(folder))
        finally:
            cluster.remove()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
