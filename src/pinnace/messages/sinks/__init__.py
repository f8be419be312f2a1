"""The services that messages go to. Each takes a few messages in one attempt, or raises SinkError.

What is sent when, and again, is decided in `ledger` and `delivery`.
"""
