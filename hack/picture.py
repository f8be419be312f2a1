"""Draws the picture of a terminal in the README from the real program: `make picture`.

A control plane is started, a namespace with an application is made in it, and each command runs as a user
would type it. Its output becomes one SVG.
"""

import asyncio
import os
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
from pinnace.kube.resources import CONFIGMAPS, JOBS, NAMESPACES, SECRETS, APIResource

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "terminal.svg"
COLUMNS = 96
NAMESPACE = "shop"
CRON_JOBS = replace(JOBS, name="cronjobs", kind="CronJob", short_names=("cj",), singular_name="cronjob")
COMMAND_SECONDS = 60.0


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


async def _install(kubeconfig: Path) -> None:
    async with KubeClient(load_config(str(kubeconfig))) as client:
        await client.create(NAMESPACES, _object(NAMESPACES, NAMESPACE))
        for resource, obj in APPLICATION:
            await client.create(resource, obj, NAMESPACE)


async def _break(kubeconfig: Path) -> None:
    """Delete objects, as an accident between backup and restore."""
    async with KubeClient(load_config(str(kubeconfig))) as client:
        await client.patch(CRON_JOBS, "report", {"spec": {"suspend": True}}, NAMESPACE)
        await client.delete(CONFIGMAPS, "settings", NAMESPACE)


def draw(kubeconfig: Path, folder: Path) -> str:
    """Run the commands and return the picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    asyncio.run(_install(kubeconfig))
    _run(console, kubeconfig, folder, "backup create before --include-namespaces shop")
    console.print(Text("# Then its settings are deleted, and its report is suspended.", style="bright_black"))
    asyncio.run(_break(kubeconfig))
    _run(console, kubeconfig, folder, "backup diff before --cluster -n shop")
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
    console.print(Text.from_ansi(ended.stdout.strip()))
    console.print()


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
