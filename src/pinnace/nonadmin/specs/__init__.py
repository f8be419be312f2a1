"""Checks of tenants' specs, and the specs that the server gets for them. Pure. (docs/spec: NAC 6)"""
