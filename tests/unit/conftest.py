"""What unit tests share: no certificate authority of the machine is trusted."""

from collections.abc import Iterator
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
