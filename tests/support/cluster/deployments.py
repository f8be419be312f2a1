"""A deployed server: its processes and their confinement."""

from pathlib import Path

from hack.cluster.nodes.cluster import NodeCluster

TAGS = ("localhost/pinnace:v1", "localhost/pinnace:v2")


def is_confined(process: dict[str, list[str]]) -> bool:
    """It can gain no privileges nor write to its image's files, and a filter looks at its system calls."""
    return (process["NoNewPrivs"], process["Seccomp"], process["Root"]) == (["1"], ["2"], ["ro"])


def process_of(cluster: NodeCluster, words: str) -> dict[str, list[str]]:
    """What the kernel says of the process in the pods of this cluster that runs `pinnace <words>`."""
    parent = f"/{cluster.network.name}-"
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().replace("\0", " ").strip()
            if command.endswith(f"bin/pinnace {words}") and parent in (folder / "cgroup").read_text():
                lines = (folder / "status").read_text().splitlines()
                said = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
                mounts = [line.split() for line in (folder / "mountinfo").read_text().splitlines()]
                [root] = [mount for mount in mounts if mount[4] == "/"]
                return {**said, "Root": root[5].split(",")[:1]}
        except OSError:
            continue  # it has ended since
    raise AssertionError(f"no pod runs pinnace {words}")
