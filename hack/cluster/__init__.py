"""A development cluster of real parts: the Kubernetes control plane, nodes where wanted, and an S3 server.

Used by the tests, the demo and the benchmarks, and from a shell by `python -m hack.cluster up`.

    binaries.py        finds the programs, or builds them once a machine
    locks.py           locks that end with their holder
    processes.py       child processes that cannot outlive their parent
    pki.py             one certificate authority a cluster
    control_plane.py   class ControlPlane
    node_cluster.py    class NodeCluster: a control plane with nodes, on which pods run
    node.py            class Node: containerd and a kubelet in namespaces of their own
    node_init.py       the first process of a node
    node_config.py     configuration files of a node
    node_network.py    class ClusterNetwork: the nodes' bridge, addresses and routes
    node_requirements.py   whether this machine can run nodes
    relay.py           passes connections of pods on to the API server
    cgroups.py         control groups of nodes
    images.py          container images from folders
    python_image.py    Python programs for such folders
    s3.py              class S3Server
        faults.py          faults on the way to a server, as data
    proxy.py           class FaultProxy, which carries them out
    development.py     the long-running cluster behind `make cluster-up`
"""
