"""The Dockerfile says of the image what the build without a container engine says."""

import json

from deploy.image.root_filesystem import ENTRYPOINT, ENVIRONMENT, SOURCE, USER

INSTRUCTIONS = (SOURCE / "deploy/image/Dockerfile").read_text().replace("\\\n", "").splitlines()


def last(instruction: str) -> str:
    """What the last instruction of that kind says."""
    return (
        [line for line in INSTRUCTIONS if line.startswith(f"{instruction} ")][-1]
        .removeprefix(instruction)
        .strip()
    )


def test_the_dockerfile_agrees() -> None:
    assert dict(word.split("=", 1) for word in last("ENV").split()) == ENVIRONMENT
    assert json.loads(last("ENTRYPOINT")) == list(ENTRYPOINT)
    assert last("USER") == f"{USER}:{USER}"
    assert last("FROM") == "scratch"
