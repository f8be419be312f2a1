"""`nonadmin`: the commands of tenants, and the command that runs their controllers. (docs/spec: NAC)

A tenant's command needs rights in the tenant's own namespace only. Not here: how requests are handled
(`pinnace.nonadmin`), and the process that does it (`pinnace.server.nonadmin`).
"""
