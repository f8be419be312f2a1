"""Progress of long work: what is known (`state`), how it is written (`lines`), where and when (`view`), and
what a server's run says of its volumes (`volumes`). (docs/adr/062)
"""
