"""`nonadmin`: the commands of tenants, and the command that runs their controllers. (docs/spec: NAC)

A tenant's command needs rights in the tenant's own namespace only. Not here: what becomes of a request
(`pinnace.nonadmin`), and the process (`pinnace.server.nonadmin`).
"""
