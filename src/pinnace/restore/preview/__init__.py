"""A restore without its writes: the same engine over a simulated cluster, and notes of what it would start.

What a restore would do is decided by the engine and its actions, not here. Here are the cluster that keeps
writes in memory, and the collaborators that note a volume, a pod's data or a hook instead of working on it.
Nothing here prints.
"""
