"""Flags and environment that scripts for the upstream manager pass. (docs/spec: NAC 2)"""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from pinnace.cli.declaring.commands import command
from pinnace.cli.nonadmin.upstream import UpstreamOptions, log_choice
from pinnace.cli.program import run
from pinnace.nonadmin.settings.source import SettingsFlags
from pinnace.server.nonadmin import NonAdminServerOptions


@pytest.mark.parametrize(
    ("environ", "flags", "level", "fmt"),
    [
        ({}, {}, "info", "text"),
        ({"LOG_LEVEL": "0"}, {}, "panic", "text"),
        ({"LOG_LEVEL": "5"}, {}, "debug", "text"),
        ({"LOG_LEVEL": "6"}, {}, "debug", "text"),
        ({"LOG_LEVEL": "trace"}, {}, "debug", "text"),
        ({"LOG_LEVEL": "warning", "LOG_FORMAT": "json"}, {"zap_log_level": "debug"}, "warning", "json"),
        ({"LOG_FORMAT": "xml"}, {"zap_encoder": "json"}, "info", "text"),
        ({}, {"zap_log_level": "error", "zap_encoder": "json"}, "error", "json"),
        ({}, {"zap_log_level": "3", "zap_encoder": "console"}, "debug", "text"),
        ({}, {"zap_devel": True}, "debug", "text"),
        ({}, {"zap_devel": True, "zap_log_level": "info"}, "info", "text"),
    ],
    ids=str,
)
def test_environment_and_flags_choose_level_and_format_of_the_log(
    environ: dict[str, str], flags: dict[str, Any], level: str, fmt: str
) -> None:
    choice = log_choice(environ, UpstreamOptions(**flags))
    assert (choice.level, choice.fmt, choice.remarks) == (level, fmt, ())


@pytest.mark.parametrize(
    ("environ", "flags", "said"),
    [
        ({"LOG_LEVEL": "7"}, {}, "LOG_LEVEL=7 is not a level; info is used"),
        ({"LOG_LEVEL": "loud"}, {}, "LOG_LEVEL=loud is not a level; info is used"),
        ({}, {"zap_log_level": "loud"}, "--zap-log-level=loud is not a level; info is used"),
        ({}, {"zap_log_level": "0"}, "--zap-log-level=0 is not a level; info is used"),
        ({}, {"metrics_secure": True}, "--metrics-secure has no effect: metrics are served over"),
        ({}, {"enable_http2": True}, "--enable-http2 has no effect"),
        ({}, {"zap_stacktrace_level": "error"}, "--zap-stacktrace-level has no effect"),
        ({}, {"zap_time_encoding": "iso8601"}, "--zap-time-encoding has no effect"),
    ],
    ids=str,
)
def test_settings_without_effect_are_reported(
    environ: dict[str, str], flags: dict[str, Any], said: str
) -> None:
    choice = log_choice(environ, UpstreamOptions(**flags))
    assert choice.level == "info"
    (remark,) = choice.remarks
    assert remark.startswith(said)


def test_all_flags_of_upstream_are_accepted() -> None:
    taken: list[UpstreamOptions] = []

    @command("server", UpstreamOptions, short_help="")
    def server(_ctx: click.Context, options: UpstreamOptions) -> None:
        taken.append(options)

    words = ["--metrics-secure", "--enable-http2", "--zap-devel", "--zap-encoder", "json"]
    words += ["--zap-log-level=debug", "--zap-stacktrace-level=error", "--zap-time-encoding=epoch"]
    outcome = CliRunner().invoke(server, words)
    assert outcome.exit_code == 0, outcome.output
    assert taken == [
        UpstreamOptions(
            metrics_secure=True,
            enable_http2=True,
            zap_devel=True,
            zap_encoder="json",
            zap_log_level="debug",
            zap_stacktrace_level="error",
            zap_time_encoding="epoch",
        )
    ]


def test_the_flags_reach_the_options_of_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[NonAdminServerOptions] = []

    async def serve(_config: object, options: NonAdminServerOptions, *, user_agent: str) -> None:
        assert user_agent
        told.append(options)

    monkeypatch.setattr("pinnace.server.nonadmin.run_nonadmin", serve)
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: None)
    monkeypatch.setattr("pinnace.server.monitoring.logging.configure_logging", lambda *_: None)
    monkeypatch.setenv("WATCH_NAMESPACE", "velero")
    words = ["nonadmin", "server", "--max-unfinished-backups=3", "--max-unfinished-restores", "0"]
    words += ["--adopt-former-namespaces=shop=uid,blog=*", "--metrics-secure", "--require-approval=false"]

    assert run(words) == 0
    (options,) = told
    assert options.namespace == "velero"
    assert options.settings == SettingsFlags(
        require_approval=False,
        max_unfinished_backups=3,
        max_unfinished_restores=0,
        adopted_namespaces={"shop": "uid", "blog": "*"},
    )
    assert "--metrics-secure has no effect" in caplog.text
