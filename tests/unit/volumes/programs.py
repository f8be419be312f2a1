"""A shell script in place of restic or kopia, with what a call needs: a location, a password and a volume."""

import base64
from pathlib import Path

from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE

TAGS = {"backup": "b1", "backup-uid": "u1", "pod": "p", "pod-uid": "u2", "ns": "shop", "volume": "data"}


class ScriptedProgram:
    """A program that answers as a test says, and the arguments of its calls.

    Attributes:
        path: the script, once `answer` has written it.
        volume: an empty directory to save.
        cluster: has the location `default` and the Secret with the password.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "program"
        self.volume = folder / "volume"
        self._calls = folder / "calls"
        work = folder / "work"
        self.volume.mkdir()
        work.mkdir()
        self.cluster = cluster = ScriptedCluster()
        location = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(folder)},
            "objectStorage": {"bucket": "bucket"},
        }
        cluster.add("backupstoragelocations", "default", spec=location)
        cluster.add("secrets", SECRET_NAME, data={SECRET_KEY: base64.b64encode(b"password").decode()})
        inherited = {"PATH": "/usr/bin:/bin"}
        self.accesses = AccessProvider(cluster.client, NAMESPACE, work, inherited=inherited)

    def answer(self, **commands: str) -> None:
        """Run these shell commands for the sub-commands of these names (`_` for a space)."""
        cases = "\n".join(f"*'{name.replace('_', ' ')}'*) {line};;" for name, line in commands.items())
        self.path.write_text(f'#!/bin/sh\necho "$*" >>{self._calls}\ncase "$*" in\n{cases}\nesac\n')
        self.path.chmod(0o755)

    def calls(self, command: str) -> list[str]:
        """The arguments of the calls of a sub-command."""
        return [line for line in self._calls.read_text().splitlines() if command in line]
