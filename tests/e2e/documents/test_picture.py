"""The picture of the README shows what the program says now."""

import asyncio
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.picture import NAMESPACE, PICTURE, draw, words

OTHER_NAMESPACE = "pict"
"""As long as the picture's, so that lines are broken at the same places."""


@pytest.mark.found("DOC5")
@pytest.mark.cluster
async def test_the_words_of_the_picture_are_those_of_the_program(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    drawn = await asyncio.to_thread(draw, control_plane.kubeconfig, tmp_path, OTHER_NAMESPACE)

    shown = words(PICTURE.read_text(encoding="utf-8"))
    now = [line.replace(OTHER_NAMESPACE, NAMESPACE) for line in words(drawn)]
    assert now == shown, "run `make picture`"
