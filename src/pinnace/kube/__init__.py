"""A cluster: how to connect to it, its client, and the resources that it serves.

`config` finds the cluster and the credentials, `client` talks to it, `discovery` knows its resources,
`errors` has everything that can go wrong. The other modules are their parts:

- `kubeconfig`, `users`, `auth`, `exec_auth`, `oidc`, `tls`, `proxy`: who we are and how we get there
- `requests`, `transport`, `retrying`, `limiting`: one request, made once, again, and not too often at once
- `pages`, `listing`, `watching`: lists and watches
- `groups`, `discovering`: discovery documents and how to get them
"""
