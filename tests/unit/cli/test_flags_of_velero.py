"""Every flag that Velero has had since 1.6 is known to its command: it has an effect, or is refused by name.

The lists are those of the specification. (docs/spec: BEY 7, 8.1, 10.1, 10.2)
"""

from pathlib import Path
from typing import Any

import click
import pytest

from pinnace.cli.common import refused
from pinnace.cli.common.refused import RefusedFlag
from pinnace.cli.main import run
from pinnace.cli.program import cli

SCOPED = (
    "--include-cluster-scoped-resources --exclude-cluster-scoped-resources "
    "--include-namespace-scoped-resources --exclude-namespace-scoped-resources"
)
OF_BACKUPS = (
    "--csi-snapshot-timeout --item-operation-timeout --resource-policies-configmap --snapshot-move-data "
    "--data-mover --parallel-files-upload --or-selector --annotations --default-volumes-to-fs-backup "
    f"--backup-type --volume-group-snapshot-label-key {SCOPED}"
)
LOCATIONS = "--credential"
FLAGS = {
    "install": "--apply --use-node-agent --use-node-agent-windows --privileged-node-agent "
    "--node-agent-disable-host-path --kubelet-root-dir --node-agent-pod-cpu-request "
    "--node-agent-pod-mem-request --node-agent-pod-cpu-limit --node-agent-pod-mem-limit "
    "--default-volumes-to-fs-backup --default-repo-maintain-frequency --garbage-collection-frequency "
    "--pod-volume-operation-timeout --uploader-type --default-snapshot-move-data --disable-informer-cache "
    "--schedule-skip-immediately --service-account-name --pod-labels --keep-latest-maintenance-jobs "
    "--maintenance-job-cpu-request --maintenance-job-mem-request --maintenance-job-cpu-limit "
    "--maintenance-job-mem-limit --backup-repository-configmap --repo-maintenance-job-configmap "
    "--node-agent-configmap --csi-snapshot-early-frequent-polling "
    "--item-block-worker-count --concurrent-backups --server-priority-class-name "
    "--node-agent-priority-class-name --default-resource-modifier-configmap",
    "server": "--client-qps --client-burst --client-page-size --fs-backup-timeout "
    "--default-repo-maintain-frequency --garbage-collection-frequency --item-operation-sync-frequency "
    "--default-item-operation-timeout --resource-timeout --max-concurrent-k8s-connections --uploader-type "
    "--default-snapshot-move-data --disable-informer-cache --schedule-skip-immediately "
    "--backup-repository-configmap --repo-maintenance-job-configmap --item-block-worker-count "
    "--volume-group-snapshot-label-key --concurrent-backups --disable-controllers "
    "--global-backup-volume-policies-configmap --default-resource-modifier-configmap "
    "--max-backup-extraction-size",
    "node-agent": "--node-agent-configmap --backup-repository-configmap --data-mover-prepare-timeout "
    "--resource-timeout",
    "backup create": OF_BACKUPS,
    "schedule create": f"{OF_BACKUPS} --paused --skip-immediately --use-owner-references-in-backup",
    "restore create": "--existing-resource-policy --status-include-resources --status-exclude-resources "
    "--resource-modifier-configmap --write-sparse-files --parallel-files-download --or-selector "
    "--item-operation-timeout --annotations --resource-policies-configmap --skip-default-resource-modifier "
    "--existing-volume-data-policy --delete-extra-files",
    "backup describe": "--output",
    "schedule pause": "--skip-immediately",
    "schedule unpause": "--skip-immediately",
    "repo get": "--output",
    "snapshot-location create": LOCATIONS,
    "snapshot-location set": LOCATIONS,
    "backup-location create": LOCATIONS,
    "backup-location set": LOCATIONS,
    "debug": "--output",
    "plugin add": "--confirm --image-pull-policy",
    "uninstall": "--force --wait",
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


def command_of(words: str) -> click.Command:
    found: click.Command = cli
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, words
        found = inner
    return found


@pytest.mark.found("X11", "E-F4")
@pytest.mark.parametrize("words", FLAGS)
def test_a_command_knows_every_flag_that_it_has_in_velero(words: str) -> None:
    known = {name for param in command_of(words).params for name in param.opts}

    assert [flag for flag in FLAGS[words].split() if flag not in known] == []


CREATION = {
    "backup create b": refused.OF_BACKUPS,
    "schedule create s --schedule @daily": refused.OF_BACKUPS,
    "install --crds-only --dry-run": refused.OF_INSTALL,
}
REFUSED = [(words, flag) for words, flags in CREATION.items() for flag in flags]


def named(case: Any) -> str:
    return case.name if isinstance(case, RefusedFlag) else " ".join(w for w in case.split() if w.isalpha())


def given(flag: RefusedFlag, value: object) -> str:
    return flag.name if flag.switch else f"{flag.name}={value}"


@pytest.mark.found("X11")
@pytest.mark.parametrize(("words", "flag"), REFUSED, ids=named)
def test_a_flag_without_an_effect_is_refused_with_the_reason_unless_it_asks_for_what_happens(
    words: str, flag: RefusedFlag, capsys: pytest.CaptureFixture[str]
) -> None:
    output = [] if words.startswith("install") else ["-o", "json"]
    if True not in flag.same:
        assert run([*words.split(), *output, given(flag, "7")]) != 0
        assert f"{flag.name} is not supported: {flag.why}" in capsys.readouterr().err
    for same in flag.same:
        assert run([*words.split(), *output, given(flag, same)]) == 0, capsys.readouterr().err
    if flag.switch:
        assert run([*words.split(), *output, f"{flag.name}=false"]) == 0, capsys.readouterr().err
