"""The commands of pages that need one cluster do what the pages say."""

from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from tests.e2e.documents.pages import Reader, blocks
from tests.support.stores import golden

MIGRATION = "docs/tasks/migrate-from-velero.md"
PAGES = ("README.md", "docs/tasks/without-a-server.md", "docs/tasks/sign-backups.md", MIGRATION)


@pytest.mark.cluster
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_says(
    page: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    if page == MIGRATION:
        golden.unpack("1.18.0", tmp_path)
    # Its namespace still goes when the test ends, and other tests put the example into one named shop.
    reader, found = Reader(tmp_path, control_plane.kubeconfig, {"shop": "shop-of-page"}), blocks(page)

    assert found, f"{page} marks no block as runnable"
    for block in found:
        reader.run(block)
