"""The development cluster from a shell: `python -m hack.cluster build|up|status|serve|down`."""

import argparse
import sys
import time
from collections.abc import Callable

from hack.cluster import applications, binaries, development
from hack.cluster.errors import ClusterError
from hack.cluster.nodes import network as node_network
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.stores import azure_blob


def build(*, node: bool, tests: bool) -> int:
    """Find or build the programs, and print their paths."""
    programs = [*binaries.CONTROL_PLANE, *binaries.S3_SERVER]
    if tests:
        programs += [*binaries.PLUGIN_TOOLS, *binaries.CHART_TOOLS, *binaries.GCS_SERVER, *binaries.UPLOADER]
        programs += binaries.AGE_PROGRAM + binaries.AGE_PLUGINS
    if node and (reason := node_requirements.why_impossible()):
        print(f"[cluster] not building the programs of a node: {reason}", file=sys.stderr)
    elif node:
        programs += [*binaries.NODE, *(binaries.CSI_TOOLS if tests else ())]
    binaries.announce(programs)
    for path in binaries.locate(programs).values():
        print(path)
    if tests:
        print(applications.locate())
    if tests and (reason := azure_blob.why_impossible()):
        print(f"[cluster] not installing azurite: {reason}", file=sys.stderr)
    elif tests:
        print(azure_blob.locate_azurite())
    return 0


def up(*, node: bool) -> int:
    """Start in the background; standard output is for a shell's `eval`."""
    started = time.monotonic()
    state = development.up(node=node)
    print(f"[cluster] ready after {time.monotonic() - started:.1f} s", file=sys.stderr)
    print(f"export KUBECONFIG={state.kubeconfig}")
    print(f"export AWS_SHARED_CREDENTIALS_FILE={state.s3_credentials_file}")
    if state.nodes:
        # Another than the loopback address, so that pods reach it; no proxy is on the way there.
        print(f'export NO_PROXY="${{NO_PROXY:+$NO_PROXY,}}{node_network.TEST_NETWORK}"')
    print(f"# S3 endpoint: {state.s3_url}  region: {state.s3_region}  bucket: {development.BUCKET}")
    print(f"# as a location: --location '{state.location_url}'")
    return 0


def status() -> int:
    """Print the running servers; the exit code is 1 if none runs."""
    state = development.status()
    if state is None:
        print("no development cluster is running")
        return 1
    print(f"API server  {state.api_server_url}  (KUBECONFIG={state.kubeconfig})")
    if state.nodes:
        print(f"Nodes       {', '.join(state.nodes)}")
    print(f"S3 server   {state.s3_url}  (credentials in {state.s3_credentials_file})")
    for name, size_bytes in development.memory_bytes(state).items():
        print(f"{name:24} process {state.processes[name]:<8} {size_bytes / 2**20:6.0f} MiB")
    return 0


def serve(*, node: bool) -> int:
    """Run in the foreground until interrupted."""
    development.serve(node=node)
    return 0


def down() -> int:
    """Stop and delete."""
    print("development cluster stopped" if development.down() else "no development cluster was running")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    command.__name__: command for command in (build, up, status, serve, down)
}
TAKES_NODE = ("build", "up", "serve")


def main() -> int:
    """Run one command; an expected failure is one message and exit code 1."""
    parser = argparse.ArgumentParser(prog="hack.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.__doc__)
        if name in TAKES_NODE:
            subparser.add_argument(
                "--node", action="store_true", help="with a node, so that pods run (Linux, as root)"
            )
        if name == "build":
            subparser.add_argument("--tests", action="store_true", help="and what only tests need")
    options = vars(parser.parse_args())
    command = COMMANDS[options.pop("command")]
    try:
        return command(**options)
    except ClusterError as error:
        print(f"[cluster] {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
