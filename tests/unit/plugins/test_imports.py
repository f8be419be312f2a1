"""The modules that load heavy libraries."""

import subprocess
import sys

import pytest

HEAVY = ("grpc", "google.protobuf", "aiohttp")


def loaded(statement: str) -> list[str]:
    """Which of the heavy libraries a fresh interpreter has after a statement."""
    script = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout.split()


@pytest.mark.parametrize(
    "module",
    ["pinnace.cli.main", "pinnace.plugins", "pinnace.plugins.installed", "pinnace.plugins.testing"],
)
def test_importing_pinnace_does_not_load_grpc(module: str) -> None:
    assert loaded(f"import {module}") == []


def test_modules_that_call_programs_load_grpc() -> None:
    """Otherwise the other tests could not fail."""
    assert "grpc" in loaded("import pinnace.plugins.host.supervisor")


def test_finding_no_programs_does_not_load_grpc() -> None:
    statement = (
        "import asyncio; from pathlib import Path;"
        "from pinnace.plugins.installed import PluginOptions, find_plugins;"
        "options = PluginOptions(modules=['tests.support.sample_plugin'], directory=Path('/nonexistent'));"
        "found = asyncio.run(find_plugins(options));"
        "found.operation().backup_actions"
    )
    assert loaded(statement) == []
