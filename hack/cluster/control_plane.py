"""A real control plane: etcd, kube-apiserver and kube-controller-manager as child processes on loopback.

There is no node here, so no pod runs (node_cluster.py adds nodes); everything that is an API matter is real:
storage, admission, RBAC, watches, custom resources, namespace deletion, garbage collection, tokens of service
accounts.
"""

import http.client
import json
import shutil
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from secrets import token_urlsafe
from types import TracebackType
from typing import Self

import yaml

from hack.cluster import binaries
from hack.cluster.pki import CertificateAuthority, KeyPair, issue_signing_key, write_secret
from hack.cluster.processes import SERVER, ManagedProcess, free_port

SERVICE_RANGE = "10.96.0.0/16"
PROBE_TIMEOUT_SECONDS = 10.0
START_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a control plane.

    The in-flight limits default to ten times Kubernetes' own, so that a benchmark measures its subject and
    not the throttle; lower them to meet 429 from a real server. `scheduler` adds kube-scheduler, which is of
    use only with nodes.
    """

    max_requests_inflight: int = 4000
    max_mutating_requests_inflight: int = 2000
    api_server_flags: Sequence[str] = ()
    service_range: str = SERVICE_RANGE
    scheduler: bool = False


class ControlPlane:
    """One cluster in one folder. A context manager: started on entry, stopped on exit.

    Nothing happens before `start()`. `stop()` ends the processes and keeps the folder, so that `start()`
    brings back the same cluster on the same address; `remove()` ends them and deletes the folder. The
    processes end with this one at the latest, even if it is killed.

    Args:
        directory: the cluster's own folder; made if missing.
        name: names the cluster, context and user in the kubeconfig.
    """

    def __init__(self, directory: Path, *, name: str = "pinnace", options: Options | None = None) -> None:
        self.directory = directory.absolute()
        self.name = name
        self.options = options or Options()
        self.kubeconfig = self.directory / "kubeconfig"
        self.port = free_port()
        self._etcd_port = free_port()
        self._processes: dict[str, ManagedProcess] = {}
        self._programs: dict[str, Path] = {}
        self._authority: CertificateAuthority | None = None

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def etcd_url(self) -> str:
        """The address of its store, which asks for no certificate."""
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def service_address(self) -> str:
        """The first address for services, always `kubernetes.default`; the server's certificate covers it."""
        return str(IPv4Network(self.options.service_range)[1])

    @property
    def authority(self) -> CertificateAuthority:
        """The cluster's certificate authority, which exists once `start()` was called."""
        if self._authority is None:
            raise RuntimeError("the control plane was never started")
        return self._authority

    @property
    def serving_pair(self) -> KeyPair:
        """The API server's certificate, which is valid for any server on 127.0.0.1."""
        return KeyPair(self._pki / "server.crt", self._pki / "server.key")

    @property
    def processes(self) -> dict[str, ManagedProcess]:
        """The running processes by program name."""
        return dict(self._processes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start what does not run and return when the cluster is usable.

        Usable means: the API server says it is ready, and the namespace `default` has its service account,
        so the controllers work too.

        Raises:
            ProgramUnavailable, StartFailed: nothing is left running then.
        """
        scheduler = binaries.SCHEDULER if self.options.scheduler else ()
        self._programs = binaries.locate([*binaries.CONTROL_PLANE, *scheduler])
        if self._authority is None:
            self._prepare()
        deadline = time.monotonic() + timeout_seconds
        try:
            self._launch("etcd", self._etcd_flags())
            self._launch("kube-apiserver", self._api_server_flags())
            self._await("kube-apiserver", lambda: self.get("/readyz")[0] == 200, deadline)
            self._launch("kube-controller-manager", self._controller_manager_flags())
            if self.options.scheduler:
                self._launch("kube-scheduler", self._scheduler_flags())
            self._await("kube-controller-manager", self._has_service_account, deadline)
        except BaseException:
            self.stop(grace_seconds=0)
            raise

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End the processes in the reverse of their start order. Idempotent."""
        for name in reversed(list(self._processes)):
            self.stop_process(name, grace_seconds=grace_seconds)

    def remove(self) -> None:
        """End the processes at once and delete the folder."""
        self.stop(grace_seconds=0)
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop_process(self, name: str, *, grace_seconds: float = 5.0) -> None:
        """End one program, for example `kube-apiserver` in the middle of a test; `start()` brings it back."""
        self._processes.pop(name).stop(grace_seconds=grace_seconds)

    def write_kubeconfig(self, path: Path, *, server: str, client: KeyPair | None = None) -> Path:
        """Write a kubeconfig for another address (a proxy's) or another user.

        Args:
            server: URL that clients shall use.
            client: certificate of the user. The administrator, when left out, has a token: the API server
                looks it up, where it verifies the certificate of a client with each of its requests.
        """
        user = {"token": self._token.read_text()}
        if client:
            user = {
                "client-certificate-data": _base64_of(client.certificate),
                "client-key-data": _base64_of(client.key),
            }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64_of(self.authority.certificate),
                    },
                }
            ],
            "users": [{"name": self.name, "user": user}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": self.name}}],
            "current-context": self.name,
        }
        write_secret(path, yaml.safe_dump(content, sort_keys=False).encode())
        return path

    def client_context(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        """Return a TLS context for the API server, with the administrator's certificate or anonymous."""
        context = self.authority.trust()
        if with_certificate:
            context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        return context

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask the API server as administrator, for status and body; status 0 when it cannot be reached."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PROBE_TIMEOUT_SECONDS, context=self.client_context()
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    @property
    def _pki(self) -> Path:
        return self.directory / "pki"

    @property
    def _token(self) -> Path:
        """The administrator's token."""
        return self._pki / "admin.token"

    def _prepare(self) -> None:
        """Make keys, certificates and the kubeconfig."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authority = CertificateAuthority(self._pki, name=f"{self.name} CA")
        self._authority.issue_server(
            "server",
            addresses=("127.0.0.1", self.service_address),
            names=("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        )
        self._authority.issue_client("admin", user="kubernetes-admin", groups=("system:masters",))
        issue_signing_key(self._pki, "service-accounts")
        token = token_urlsafe()
        write_secret(self._token, token.encode())
        write_secret(self._pki / "tokens.csv", f"{token},kubernetes-admin,admin,system:masters\n".encode())
        self.write_kubeconfig(self.kubeconfig, server=self.url)
        for program in ("controller-manager", "scheduler"):
            self.write_kubeconfig(
                self.directory / f"{program}.kubeconfig",
                server=self.url,
                client=self._authority.issue_client(program, user=f"system:kube-{program}"),
            )

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]

    def _api_server_flags(self) -> list[str]:
        pki = self._pki
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",  # an Endpoints object may not hold a loopback address
            f"--service-cluster-ip-range={self.options.service_range}",
            f"--tls-cert-file={pki / 'server.crt'}",
            f"--tls-private-key-file={pki / 'server.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--token-auth-file={pki / 'tokens.csv'}",
            f"--cert-dir={pki}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged",
            # To kubelets, for exec, logs and port-forward: as administrator, by address, as nothing resolves
            # the names of nodes.
            f"--kubelet-client-certificate={pki / 'admin.crt'}",
            f"--kubelet-client-key={pki / 'admin.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
            f"--max-requests-inflight={self.options.max_requests_inflight}",
            f"--max-mutating-requests-inflight={self.options.max_mutating_requests_inflight}",
            *self.options.api_server_flags,
        ]

    def _controller_manager_flags(self) -> list[str]:
        pki = self._pki
        return [
            f"--kubeconfig={self.directory / 'controller-manager.kubeconfig'}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--service-account-private-key-file={pki / 'service-accounts.key'}",
            # Each controller acts as its own service account, as in clusters made by kubeadm.
            "--use-service-account-credentials",
            "--profiling=false",
            # Namespaces of finished tests shall go away quickly.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # A claim that was looked at before its volume is there is looked at again after this.
            "--pvclaimbinder-sync-period=500ms",
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.directory / 'scheduler.kubeconfig'}",
            "--leader-elect=false",
            "--secure-port=0",
            "--profiling=false",
            # The event that a claim is bound may reach the scheduler before its own cache shows that. The pod
            # is then set aside, by default for five minutes, as no further event comes.
            "--pod-max-in-unschedulable-pods-duration=5s",
        ]

    def _launch(self, name: str, flags: Sequence[str]) -> None:
        if name not in self._processes:
            self._processes[name] = ManagedProcess(
                name,
                [self._programs[name], *flags],
                log=self.directory / "logs" / f"{name}.log",
                env=SERVER,
            )

    def _await(self, name: str, ready: Callable[[], bool], deadline: float) -> None:
        self._processes[name].wait_ready(ready, timeout_seconds=max(0.0, deadline - time.monotonic()))

    def _has_service_account(self) -> bool:
        status, body = self.get("/api/v1/namespaces/default/serviceaccounts/default")
        return status == 200 and json.loads(body)["metadata"]["name"] == "default"


def _base64_of(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()
