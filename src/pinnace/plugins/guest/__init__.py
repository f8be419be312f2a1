"""Running Python plugins as a program that Velero or Pinnace start as a plugin. (docs/spec: PLG 3-8, 15)

`program` is the life of the process, `services` answers the calls, `logging` writes lines that hosts read.
"""
