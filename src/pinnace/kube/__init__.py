"""A cluster: how to connect to it, its client, and the resources that it serves.

`config` finds the cluster and the credentials, `client` talks to it, `discovery` knows its resources,
`errors` has everything that can go wrong. The other modules are their parts:

- `kubeconfig`, `auth`: the kubeconfig files, and the authentication of requests
- `transport`: one request: connection, TLS, proxy, retries, limits
- `answers`: checks that an answer is the API server's
- `lists`, `watching`: lists and watches
- `groups`, `discovering`: discovery documents and how to get them
- `exec`: commands in pods
"""
