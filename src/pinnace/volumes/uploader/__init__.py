"""What restic and kopia have in common: the interface, repositories and access to them, processes, errors.

Nothing in here knows of the custom resources for pod volumes; each program has a room of its own beside.
"""
