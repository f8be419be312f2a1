"""Nodes for pods, of real parts.

cluster.py         class NodeCluster: a control plane with nodes for pods
node.py            class Node: containerd and a kubelet in namespaces of their own
init.py            the first process of a node
config.py          configuration files of a node
network.py         class ClusterNetwork: the nodes' bridge, addresses and routes
requirements.py    whether this machine can run nodes
relay.py           passes connections of pods on to the API server
cgroups.py         control groups of nodes
images.py          container images from folders
python_image.py    Python programs for such folders
"""
