"""A restore without its writes: the same engine over a simulated cluster, and notes of what it would start.

The engine and its actions decide what a restore would do. This folder has the cluster that keeps writes in
memory, and the collaborators that note a volume, a pod's data or a hook instead of working on it. Not here:
printing (`cli`).
"""
