"""What the administrator allows tenants and enforces: the settings, and where they are read from.

Not here: applying them to the requests of tenants (`nonadmin.specs`, `nonadmin.flows`).
"""
