"""The controller runtime: informers, work queues, the controller loop, manager and leader election.

It knows Kubernetes objects, and nothing of backups: what a key means is for `controllers` and `nonadmin`.
"""
