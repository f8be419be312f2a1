"""What unit tests share: no certificate authority of the machine is trusted, and folders are in memory."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

# One certificate, made for this and its key thrown away: whoever reads a bundle wants one at least.
AUTHORITIES = Path(__file__).with_name("nobody.pem")


@pytest.fixture(scope="package", autouse=True)
def _no_public_authorities() -> Iterator[None]:
    """Trust nobody: no server outside could be believed, and a machine's 150 authorities need not be read.

    Reading them takes 20 ms, and code under test does it for most connections and object stores.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(AUTHORITIES))
        yield


@pytest.fixture(scope="session")
def _scratch() -> Iterator[Iterator[Path]]:
    """New folders in memory where the system has such a place, as product code syncs what it writes."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="pinnace-unit-", dir=parent))
    yield (root / str(number) for number in count())
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def tmp_path(_scratch: Iterator[Path]) -> Iterator[Path]:
    """A folder of the test's own. pytest's makes three files of administration for each test."""
    path = next(_scratch)
    path.mkdir()
    yield path
    shutil.rmtree(path, ignore_errors=True)
