"""Messages to people about runs that fail or are missed, and about their recovery. (ADR 129)

`problem` and `ledger` decide without input or output what is said to whom and when; `sinks` say it;
`delivery` tries again. What the problems are is the matter of `controllers.telling`, and of commands without
a server.
"""
