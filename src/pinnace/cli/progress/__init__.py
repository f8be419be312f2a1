"""Progress of long work: its state (`state`), its lines (`lines`), drawing them (`view`), and the activity
and the volumes of a server's run (`activity`, `volumes`). (docs/adr/062)
"""
