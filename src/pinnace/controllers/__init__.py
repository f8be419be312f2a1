"""The controllers of the server: a key in, a status patch and a requeue out. (docs/spec: CTL)"""
