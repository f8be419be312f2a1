"""A development cluster of real parts: the Kubernetes control plane, nodes where wanted, and an S3 server.

Used by the tests, the demo and the benchmarks, and from a shell by `python -m hack.cluster up`.

    binaries.py        finds the programs, or builds them once a machine
    locks.py           locks that end with their holder
    processes.py       child processes that cannot outlive their parent
    pki.py             one certificate authority a cluster
    control_plane.py   class ControlPlane
    nodes/             class NodeCluster: a control plane with nodes for pods; images for them
    stores/            S3Server, GCSServer and AzureBlobServer
    faults.py          faults on the way to a server, as data
    proxy.py           class FaultProxy, which carries them out
    development.py     the long-running cluster behind `make cluster-up`
"""
