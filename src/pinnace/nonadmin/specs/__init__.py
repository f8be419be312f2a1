"""Whether a tenant's spec is allowed, and the spec that the server gets for it. Pure. (docs/spec: NAC 6)"""
