"""A realistic application, and a demonstration that backs it up, destroys it and brings it back.

application.py      the objects: manifests in shop/, and one large object made here
world.py            the objects of the application in a cluster, and whether its controllers are done
stage.py            puts the application into a cluster, waits for it, takes it out
compare.py          two such worlds, object by object; pure
documented.py       which differences a restore may leave, each with its reason
report.py           what the demonstration prints
demo.py             the demonstration, `make demo`
"""
