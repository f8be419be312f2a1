"""Moving the data of CSI snapshots into a location and back: the server's side. (docs/spec: BEY 6.7)

`objects` is pure: the objects that are made for it, and what they are called. `downloads` creates
DataDownloads for a restore and follows them; `exposing` makes the claims and pods that give a node access to
a volume; `rebinding` gives a filled volume to its claim. Not here: the transfer itself, which is a node
agent's (controllers.node).
"""
