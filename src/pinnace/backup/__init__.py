"""The backup engine: turns a validated Backup into a tarball in a store. (docs/spec: BKP)

The flow of the data: `request` fills in and validates the Backup; `plan` makes the ordered list of resources
from discovery; `listing` lists their objects; `items` writes each item to the archive, either as
it is or through the pipeline of hooks, actions and volumes, and adds the definitions of custom resources;
`engine` does all that for one Backup; `runner` wraps it with log, counts, phase and upload.
"""
