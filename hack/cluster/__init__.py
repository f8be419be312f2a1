"""A development cluster of real parts: etcd, kube-apiserver, kube-controller-manager, and an S3 server.

Used by the tests, the demo and the benchmarks, and from a shell by `python -m hack.cluster up`.

    binaries.py        finds the programs, or builds them once a machine
    locks.py           file locks
    processes.py       child processes that cannot outlive their parent
    pki.py             one certificate authority a cluster
    control_plane.py   class ControlPlane
    s3.py              class S3Server
    sigv4.py           signs the one S3 request that is made here
    faults.py          what can go wrong on the way to a server, as data
    proxy.py           class FaultProxy, which makes it go wrong
    development.py     the long-running cluster behind `make cluster-up`
"""
