"""`nonadmin`: the commands of tenants, and the process that serves them. (docs/spec: NAC)"""
