"""The next step for each kind of tenants' request, and the driver that carries it out. (NAC 9-13)"""
