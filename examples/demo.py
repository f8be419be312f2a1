"""The demonstration: install an application, back it up, destroy it, restore it, compare.

Everything is real: the API server, etcd and the controllers of a cluster started for this run, and the
`pinnace` command as a user would type it. Ends with 0 only if every object came back as documented.
"""

import asyncio
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that `python examples/demo.py` finds hack and examples

from examples import report  # noqa: E402
from examples.application import application  # noqa: E402
from examples.compare import World, compare_worlds  # noqa: E402
from examples.documented import DOCUMENTED  # noqa: E402
from examples.stage import Stage, StageError  # noqa: E402
from hack.cluster.control_plane import ControlPlane  # noqa: E402
from hack.cluster.errors import ClusterError  # noqa: E402
from pinnace.kube.client import KubeClient  # noqa: E402
from pinnace.kube.config import load_config  # noqa: E402
from pinnace.kube.errors import KubeError  # noqa: E402

LOCATION = "./backups"
COMMAND_SECONDS = 120.0


class DemoError(Exception):
    """The demonstration cannot continue; the text says why."""


class Demo:
    """One run against one cluster.

    Args:
        stage: the application in that cluster.
        kubeconfig: the cluster's; the child processes get it too.
        backup: name of the backup.
    """

    def __init__(self, stage: Stage, kubeconfig: Path, backup: str) -> None:
        self.stage = stage
        self.kubeconfig = kubeconfig
        self.backup = backup
        self._started = time.monotonic()

    async def run(self) -> bool:
        """Go through all steps; true if both commands succeeded and everything came back."""
        stage = self.stage
        self.say(f"Installing the shop: {len(stage.objects)} objects in {len(stage.namespaces)} namespaces")
        await stage.install()
        before = await stage.settle()
        self.say(f"The controllers made it {len(before)} objects")
        code = await self.pinnace(
            *("backup", "create", self.backup),
            *("--include-namespaces", ",".join(stage.namespaces), "--include-cluster-resources=true"),
        )
        if code:
            raise DemoError(f"nothing was destroyed, because the backup ended with exit code {code}")
        self.say("Destroying it: namespaces, cluster-scoped objects, custom resource definitions")
        destroyed = await stage.destroy()
        self.say(f"{len(before.keys() - destroyed.keys())} of {len(before)} objects are lost")
        code = await self.pinnace("restore", "create", "--from-backup", self.backup)
        self.say("Waiting for the controllers, then comparing object by object")
        at_rest, after = await self._settle_anyway()
        complete = self.compare(before, destroyed, after)
        self.say(f"The restore ended with exit code {code}" if code else "Done")
        return complete and at_rest and code == 0

    async def _settle_anyway(self) -> tuple[bool, World]:
        """Wait until the controllers are done; continue also if they never are."""
        try:
            return True, await self.stage.settle()
        except StageError as error:
            self.say(str(error))
            return False, await self.stage.snapshot()

    def say(self, text: str) -> None:
        """Print a step with the time since the start."""
        print(f"[{time.monotonic() - self._started:5.1f} s] {text}", flush=True)

    def compare(self, before: World, destroyed: World, after: World) -> bool:
        """Print the comparison; true if no difference is unexplained."""
        comparison = compare_worlds(before, destroyed, after, DOCUMENTED)
        print(f"\n{report.kind_table(comparison.rows)}\n")
        print(f"Documented differences (examples/README.md):\n{report.explanation(comparison, DOCUMENTED)}\n")
        found = comparison.unexplained
        if found:
            print(f"{len(found)} unexplained differences:\n{report.unexplained(comparison)}\n")
        else:
            print("Nothing else differs.")
        return not found

    async def pinnace(self, *arguments: str) -> int:
        """Run the real command line, show its output, return its exit code.

        Raises:
            DemoError: it takes too long.
        """
        command = ["pinnace", "--location", LOCATION, *arguments]
        self.say(f"$ {shlex.join(command)}")
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("pinnace"),
            *command[1:],
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                assert process.stdout is not None
                async for line in process.stdout:
                    print(f"    {line.decode(errors='replace').rstrip()}", flush=True)
                return await process.wait()
        except TimeoutError as error:
            raise DemoError(f"{command[0]} took longer than {COMMAND_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def demonstrate(kubeconfig: Path) -> bool:
    """Run the demonstration against a running cluster."""
    backup = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    async with KubeClient(load_config(str(kubeconfig))) as client:
        return await Demo(Stage(client, application()), kubeconfig, backup).run()


def main(arguments: Sequence[str]) -> int:
    """Start a cluster, run the demonstration, remove the cluster."""
    if arguments:
        print("usage: demo.py (it takes no arguments)", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up like after Ctrl-C
    print("Starting a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager)", flush=True)
    with tempfile.TemporaryDirectory(prefix="pinnace-demo-") as folder:
        cluster = ControlPlane(Path(folder) / "cluster", name="demo")
        try:
            cluster.start()
            complete = asyncio.run(demonstrate(cluster.kubeconfig))
        except (DemoError, StageError, KubeError, ClusterError) as error:
            print(f"The demonstration failed: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            cluster.remove()
    if complete:
        print(f"The backup stays in {LOCATION}; `pinnace --location {LOCATION} backup get` lists it.")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
