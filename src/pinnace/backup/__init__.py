"""The backup engine: turns a validated Backup into a tarball in a store. (docs/spec: BKP)

The flow of the data: `request` fills in and validates the Backup; `plan` decides from discovery which
resources are listed in which order; `collect` lists them; `raw_items` puts items that need not be looked
into straight into the archive; `item` runs the pipeline of hooks, actions and volumes on the others; `crds`
adds the definitions of custom resources; `engine` does all that for one Backup; `runner` wraps it with log,
counts, phase and upload.
"""
