"""Retention: which backups of a schedule the rules keep, and which may go. Pure. (docs/adr/128)

`rules` reads the rules, `candidates` says how a Backup counts, `deciding` applies the rules to a group, and
`breaker` holds back what nobody could expect. Nothing here deletes.
"""
