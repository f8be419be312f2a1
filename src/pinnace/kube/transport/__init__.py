"""Requests to an API server: libcurl on the event loop, TLS, proxies, websockets, limits, retries.

Not here: what requests mean (kube.client).
"""
