"""Self-service: tenants back up and restore their own namespace without any right on the server's objects.

A tenant writes requests (`oadp.openshift.io/v1alpha1`) into their own namespace; the controllers here check
them, make Velero objects with forced fields in the server's namespace, and show progress in the request's
status. Everything a tenant can write is hostile input. The next step of a request is decided by pure
functions of the request and the known facts (`flows`); `driver` carries the steps out.
(docs/spec: NAC)
"""
