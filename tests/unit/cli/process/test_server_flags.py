"""The flags of `server`, as options of the process."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.values.durations import Duration
from pinnace.backup.request import ServerDefaults
from pinnace.cli.main import run
from pinnace.cli.process import server_run
from pinnace.controllers.registry import NAMES
from pinnace.kube.errors import ConfigError
from pinnace.restore.request import RestoreSettings
from pinnace.server.options import ServerOptions

ALL = (
    "backup",
    "backup-deletion",
    "backup-sync",
    "download-request",
    "gc",
    "restic-repo",
    "restore",
    "schedule",
    "server-status-request",
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE", "VELERO_SCRATCH_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerOptions]:
    """The options of servers that would have been started."""
    options: list[ServerOptions] = []

    async def record(_config: Any, given: ServerOptions, *, user_agent: str) -> None:
        assert user_agent.startswith("velero-server/v")
        options.append(given)

    monkeypatch.setattr(server_run, "run_server", record)
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: None)
    monkeypatch.setattr(server_run, "configure_logging", lambda *_: None)
    return options


def options_of(started: list[ServerOptions], *words: str) -> ServerOptions:
    assert run(["server", *words]) == 0
    return started.pop()


def test_without_flags_the_options_have_their_defaults(started: list[ServerOptions]) -> None:
    options = options_of(started)

    assert (options.namespace, options.metrics_address, options.scratch) == ("velero", ":8085", None)
    assert (options.log_level, options.log_format, options.leader_election) == ("info", "text", True)
    assert options.defaults == ServerDefaults()
    assert options.restore == RestoreSettings(features=frozenset())
    assert options.store_validation_frequency == Duration.minutes(1)
    assert options.disabled_controllers == options.features == frozenset()
    assert (options.client_qps, options.profiler_address) == (None, "localhost:6060")
    assert (options.backup_workers, options.restore_workers) == (1, 1)
    assert not options.parallel_restores_into_namespace
    assert options.plugin_directory == Path("/plugins")
    assert options.pod_volume_timeout == Duration.hours(4)
    assert options.maintenance_frequency == Duration.hours(168)


@pytest.mark.spec("SRV-008", "CLI-042")
@pytest.mark.parametrize(
    "words",
    [
        ["--disable-controllers", "backup"],
        ["--disable-controllers", "backup,gc"],
        ["--disable-controllers", ",".join(ALL)],
        ["--disable-controllers", ",".join(NAMES)],
        ["--disable-controllers", "backup,backup", "--disable-controllers", "backup"],
    ],
    ids=["one", "two", "all of Velero", "all", "repeated"],
)
def test_disabled_controllers_reach_the_options(started: list[ServerOptions], words: list[str]) -> None:
    named = {name for word in words[1::2] for name in word.split(",")}

    assert options_of(started, *words).disabled_controllers == named


@pytest.mark.spec("SRV-008", "CLI-042")
def test_an_unknown_controller_is_refused_with_the_valid_names(
    started: list[ServerOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["server", "--disable-controllers", "backup,go"]) == 1

    assert capsys.readouterr().err == (
        f"An error occurred: Invalid value for --disable-controllers flag provided: go. "
        f"Valid values are: {','.join(ALL)}\n"
    )
    assert started == []


@pytest.mark.spec("SRV-008")
def test_restore_only_and_disabled_controllers_add_up(started: list[ServerOptions]) -> None:
    options = options_of(started, "--restore-only", "--disable-controllers=backup")

    parts = {"messages", "schedule-runs", "retention", "holds"}
    assert options.disabled_controllers == {"backup", "schedule", "gc", "backup-deletion", *parts}


@pytest.mark.spec("SRV-002")
def test_snapshot_locations_of_repeated_flags_add_up(
    started: list[ServerOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    flag = "--default-volume-snapshot-locations"
    given = options_of(started, flag, "aws:a,gcp:b", flag, "p:a:b,aws:c").defaults.snapshot_locations
    assert given == {"aws": "c", "gcp": "b", "p": "a:b"}
    assert run(["server", flag, "aws"]) == 1
    assert 'error parsing "aws"' in capsys.readouterr().err


def test_every_other_flag_reaches_the_options(
    started: list[ServerOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VELERO_SCRATCH_DIR", "/scratch")
    options = options_of(
        started,
        *("-n", "other", "--features", "EnableCSI,X", "--metrics-address", "127.0.0.1:0"),
        *("--log-level", "debug", "--log-format", "json", "--leader-elect=false"),
        *("--default-backup-ttl", "1h", "--default-backup-storage-location", "there"),
        *("--default-volumes-to-restic", "--store-validation-frequency", "0s"),
        *("--restore-resource-priorities", "namespaces,secrets", "--terminating-resource-timeout", "1m"),
        *("--resource-timeout", "2m"),
        *("--profiler-address", "", "--backup-workers", "2", "--restore-workers", "3"),
        *("--allow-parallel-restores-into-namespace", "--plugin-dir", "/p", "--restic-timeout", "1h"),
        *("--default-restic-prune-frequency", "2h"),
    )

    assert (options.namespace, options.metrics_address) == ("other", "127.0.0.1:0")
    assert (options.log_level, options.log_format, options.leader_election) == ("debug", "json", False)
    assert options.features == {"EnableCSI", "X"}
    assert set(options.restore.features) == {"EnableCSI", "X"}
    assert options.scratch == Path("/scratch")
    assert options.defaults.backup_ttl == Duration.hours(1)
    assert options.defaults.storage_location == "there"
    assert options.defaults.volumes_to_fs_backup
    assert options.store_validation_frequency == Duration()
    assert options.restore.priorities == ("namespaces", "secrets")
    assert options.restore.terminating_timeout_seconds == 60
    assert options.restore.resource_timeout_seconds == 120
    assert options.profiler_address is None
    assert (options.backup_workers, options.restore_workers) == (2, 3)
    assert options.parallel_restores_into_namespace
    assert options.plugin_directory == Path("/p")
    assert options.pod_volume_timeout == Duration.hours(1)
    assert options.maintenance_frequency == Duration.hours(2)


@pytest.mark.spec("SRV-001")
@pytest.mark.parametrize(
    ("words", "qps", "burst"),
    [
        ([], None, 30),
        (["--client-qps", "0"], None, 30),
        (["--client-qps", "0", "--client-burst", "7"], None, 7),
        (["--client-qps", "2.5"], 2.5, 30),
        (["--client-burst", "7"], 20, 7),
        (["--client-qps", "20", "--client-burst", "30"], 20, 30),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_qps_and_burst_set_the_cap_on_requests(
    started: list[ServerOptions], words: list[str], qps: float | None, burst: int
) -> None:
    options = options_of(started, *words)

    assert (options.client_qps, options.client_burst) == (qps, burst)


@pytest.mark.parametrize("frequency", ["0s", "-1h"])
def test_a_prune_frequency_that_is_not_positive_means_the_default(
    started: list[ServerOptions], frequency: str
) -> None:
    options = options_of(started, "--default-restic-prune-frequency", frequency)

    assert options.maintenance_frequency == Duration.hours(168)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--metrics-address", "8085"], '--metrics-address: "8085" is not an address'),
        (["--profiler-address", "6060"], '--profiler-address: "6060" is not an address'),
        (["--backup-workers", "0"], "--backup-workers must be at least 1"),
        (["--restore-workers", "-1"], "--restore-workers must be at least 1"),
        (["--restore-workers", "many"], 'invalid argument "many" for "--restore-workers" flag'),
        (["--client-qps", "nan"], 'invalid argument "nan" for "--client-qps" flag'),
        (["--log-level", "warn"], 'invalid argument "warn" for "--log-level" flag: invalid value: "warn"'),
        (["--location", "./backups"], "`server` works on a server in the cluster"),
        (["--default-backup-ttl", "3y"], 'invalid argument "3y" for "--default-backup-ttl" flag'),
    ],
)
def test_wrong_values_are_refused(
    started: list[ServerOptions], words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["server", *words]) in (1, 2)

    assert text in capsys.readouterr().err
    assert started == []


@pytest.mark.spec("SRV-001")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--client-qps", "-1"], "client-qps must be positive"),
        (["--client-burst", "0"], "client-burst must be positive"),
        (["--client-qps", "0", "--client-burst", "-1"], "client-burst must be positive"),
    ],
)
def test_a_cap_on_requests_that_is_not_positive_is_refused(
    started: list[ServerOptions], words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["server", *words]) == 1

    assert capsys.readouterr().err == f"An error occurred: {text}\n"
    assert started == []


@pytest.mark.parametrize(
    ("words", "seconds"), [([], 300.0), (["--api-timeout", "90s"], 90.0), (["--api-timeout=1h"], 3600.0)]
)
def test_the_api_timeout_reaches_the_client(
    monkeypatch: pytest.MonkeyPatch, words: list[str], seconds: float
) -> None:
    patience: list[float] = []

    def load_config(*_: object, patience_seconds: float) -> None:
        patience.append(patience_seconds)
        raise ConfigError("no cluster")

    monkeypatch.setattr("pinnace.kube.config.load_config", load_config)
    assert run(["server", *words]) == 1
    assert patience == [seconds]


@pytest.mark.parametrize("value", ["0s", "-1m", "soon"])
def test_an_api_timeout_that_is_not_positive_is_refused(
    capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert run(["server", f"--api-timeout={value}"]) != 0
    assert f'invalid argument "{value}" for "--api-timeout" flag: ' in capsys.readouterr().err


def test_flags_of_velero_1_18_with_a_meaning_here_are_honoured(started: list[ServerOptions]) -> None:
    options = options_of(
        started,
        *("--fs-backup-timeout", "2h", "--default-repo-maintain-frequency=24h", "--concurrent-backups=3"),
        *("--default-volumes-to-fs-backup", "--garbage-collection-frequency=30m"),
        *("--schedule-skip-immediately", "--default-snapshot-move-data", "--features=EnableCSI"),
        *("--backup-repository-configmap=a", "--repo-maintenance-job-configmap=b"),
    )

    assert options.pod_volume_timeout == Duration.hours(2)
    assert options.maintenance_frequency == Duration.hours(24)
    assert options.backup_workers == 3
    assert options.defaults.volumes_to_fs_backup is True
    assert options.gc_frequency == Duration.minutes(30)
    assert options.schedule_skip_immediately is True
    assert options.defaults.snapshot_move_data is True
    assert (options.repository_config_map, options.maintenance_config_map) == ("a", "b")


def test_data_is_not_moved_by_default_without_csi_snapshots(
    started: list[ServerOptions], caplog: pytest.LogCaptureFixture
) -> None:
    options = options_of(started, "--default-snapshot-move-data")

    assert options.defaults.snapshot_move_data is False
    assert "--default-snapshot-move-data has no effect without --features EnableCSI" in caplog.messages


@pytest.mark.parametrize(
    "words",
    [
        ["--client-page-size=100"],
        ["--client-page-size", "0"],
        ["--max-concurrent-k8s-connections=5"],
        ["--max-backup-extraction-size=1024"],
        ["--disable-informer-cache=true"],
        ["--keep-latest-maintenance-jobs=1"],
        ["--maintenance-job-cpu-request=1"],
        ["--item-block-worker-count=8"],
        ["--volume-group-snapshot-label-key=k"],
        ["--disable-controllers=backup-finalizer"],
    ],
    ids=lambda words: words[0],
)
def test_flags_of_velero_1_18_without_a_meaning_here_are_warned_of_by_name(
    started: list[ServerOptions], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    options_of(started, *words)

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(words[0].split("=")[0])
    assert " has no effect: " in line


@pytest.mark.parametrize(
    "words",
    [
        ["--uploader-type=restic"],
        ["--uploader-type=kopia"],
        ["--default-snapshot-move-data=false", "--disable-informer-cache=false"],
        ["--item-block-worker-count=1", "--client-page-size=500"],
        ["--disable-controllers=backup-repo"],
    ],
)
def test_flags_that_ask_for_what_happens_anyway_are_not_warned_of(
    started: list[ServerOptions], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    options = options_of(started, *words)

    assert caplog.records == []
    assert options.disabled_controllers == ({"restic-repo"} if "backup-repo" in words[0] else frozenset())


def test_a_frequency_of_the_garbage_collection_that_is_not_positive_is_refused(
    started: list[ServerOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["server", "--garbage-collection-frequency=0s"]) == 1

    assert "--garbage-collection-frequency must be positive" in capsys.readouterr().err
    assert started == []


FIRST, LAST = RestoreSettings().priorities, RestoreSettings().last


@pytest.mark.spec("BEY-050")
@pytest.mark.parametrize(
    ("given", "first", "last"),
    [
        ("a,b", ("a", "b"), LAST),
        ("a,-,b", ("a",), ("b",)),
        ("a,-", ("a",), LAST),
        ("-,b", FIRST, ("b",)),
        ("-", FIRST, LAST),
    ],
)
def test_a_dash_separates_kinds_to_restore_first_and_last(
    started: list[ServerOptions], given: str, first: tuple[str, ...], last: tuple[str, ...]
) -> None:
    restore = options_of(started, f"--restore-resource-priorities={given}").restore
    assert (restore.priorities, restore.last) == (first, last)


@pytest.mark.spec("BEY-050")
def test_two_dashes_among_the_kinds_to_restore_first_are_refused(
    started: list[ServerOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["server", "--restore-resource-priorities=-,-"]) == 1
    assert "takes only one '-'" in capsys.readouterr().err
    assert started == []
