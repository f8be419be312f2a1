"""Lists as the API server sends them: read page by page, as items that stay JSON bytes until they are needed.

Not here: whether an answer is the API server's (`kube.answers`), and watches (`kube.watching`).
"""
