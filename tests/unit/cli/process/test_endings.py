"""How the processes of a server end: what is expected is one plain line, with an exit code of its own."""

import pytest

from pinnace.cli.errors import CommandError, ExitCode, LeaseLost
from pinnace.cli.process.shared import process_errors
from pinnace.kube.errors import ConnectionFailed
from pinnace.runtime.errors import CacheSyncTimeout, LeadershipLost
from pinnace.server.checks import StartupError
from pinnace.server.watchdog import STUCK_EXIT_CODE


@pytest.mark.found("L3")
def test_a_lost_lease_is_no_defect() -> None:
    with pytest.raises(LeaseLost) as caught, process_errors():
        raise LeadershipLost("lease velero/pinnace-server is held by other")
    assert caught.value.exit_code == ExitCode.LEASE_LOST
    assert int(ExitCode.LEASE_LOST) == 5
    assert caught.value.prefix == ""
    told = "This process ends and is to be started again, as a standby."
    assert str(caught.value) == f"lease velero/pinnace-server is held by other. {told}"


@pytest.mark.parametrize(
    "error", [CacheSyncTimeout(["pods"], 3), ConnectionFailed("refused"), OSError("full"), StartupError("no")]
)
def test_other_expected_endings_are_errors_of_the_command(error: Exception) -> None:
    with pytest.raises(CommandError) as caught, process_errors(StartupError):
        raise error
    assert caught.value.exit_code == ExitCode.ERROR


def test_a_process_that_ends_itself_has_the_documented_code() -> None:
    assert int(ExitCode.STUCK) == STUCK_EXIT_CODE
