"""The Dockerfile describes the same image as the build without a container engine."""

import json

from deploy.image.root_filesystem import ENTRYPOINT, ENVIRONMENT, SOURCE, USER

INSTRUCTIONS = (SOURCE / "deploy/image/Dockerfile").read_text().replace("\\\n", "").splitlines()


def last(instruction: str) -> str:
    """The arguments of the last instruction of that kind."""
    return (
        [line for line in INSTRUCTIONS if line.startswith(f"{instruction} ")][-1]
        .removeprefix(instruction)
        .strip()
    )


def test_the_dockerfile_agrees_with_the_build() -> None:
    assert dict(word.split("=", 1) for word in last("ENV").split()) == ENVIRONMENT
    assert json.loads(last("ENTRYPOINT")) == list(ENTRYPOINT)
    assert last("USER") == f"{USER}:{USER}"
    assert last("FROM") == "scratch"
