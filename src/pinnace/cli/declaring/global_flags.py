"""The flags of all commands. (docs/spec: CLI 1.2-1.6)"""

from pinnace.api.values.durations import Duration
from pinnace.cli.declaring.fields import Options, Section, flag
from pinnace.cli.declaring.types import Boolean, CommaList, Verbosity, WaitFlag
from pinnace.cli.declaring.values import FEATURES, FILE, NAMESPACE, CompletionSource, Value


class GlobalFlags(Options, section=Section.CONNECTION):
    """The flags of all commands as given; None for those that are not."""

    kubeconfig: str | None = flag(
        default=None, value=FILE, help="Kubeconfig file; default $KUBECONFIG, then ~/.kube/config."
    )
    kubecontext: str | None = flag(
        default=None,
        value=Value("CONTEXT", CompletionSource.CONTEXTS),
        help="Context of the kubeconfig; default its current context.",
    )
    namespace: str | None = flag(
        "-n", "--namespace", default=None, value=NAMESPACE, help="Namespace of the server and its objects."
    )
    location: str | None = flag(
        default=None,
        value=Value("FOLDER|URL", CompletionSource.FOLDERS),
        help="Work without a server on this location: a folder or s3://bucket/prefix.",
    )
    identity_file: str | None = flag(
        default=None,
        value=FILE,
        help="Private keys that open encrypted backups, of age or ssh; default $PINNACE_IDENTITY_FILE.",
    )
    features: list[str] | None = flag(
        type=CommaList(may_be_empty=True),
        default=None,
        value=FEATURES,
        help="Feature flags, comma-separated.",
    )
    api_timeout: Duration | None = flag(
        type=WaitFlag(),
        default=None,
        help="How long to wait for an API server that went away, before a request fails; default 5m.",
    )
    colorized: bool | None = flag(
        type=Boolean(tristate=True, bare=False), default=None, help="Colour in describe: true or false."
    )
    verbosity: int | None = flag(
        "-v",
        "--v",
        type=Verbosity(),
        default=None,
        help="From 6 on print each request to stderr, from 7 its headers, from 8 those of the answer.",
    )
