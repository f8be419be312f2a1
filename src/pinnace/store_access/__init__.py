"""HTTP requests to object stores and clouds: sessions, retries, deadlines, errors as clear texts.

Not here: requests to an API server, which go through libcurl (kube.transport; ADR 008).
"""
