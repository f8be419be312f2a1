"""The administrator's settings for tenants, allowed and enforced, and where they are read from.

Not here: applying them to the requests of tenants (`nonadmin.specs`, `nonadmin.flows`).
"""
