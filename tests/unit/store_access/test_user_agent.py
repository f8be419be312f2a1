"""The User-Agent header names the program, its version and the platform as Go spells it."""

import os

import pytest

from pinnace import __version__
from pinnace.store_access.user_agent import user_agent


@pytest.mark.parametrize(
    ("system", "machine", "platform"),
    [
        ("Darwin", "x86_64", "darwin/amd64"),
        ("Linux", "aarch64", "linux/arm64"),
        ("Linux", "riscv64", "linux/riscv64"),
    ],
)
def test_the_user_agent_has_program_version_and_platform(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, platform: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "host", "6.1", "#1", machine)))

    assert user_agent("velero") == f"velero/v{__version__} ({platform})"
