"""Tells people what is wrong, by the sinks of `pinnace.messages` and by Events and annotations. (ADR 129)

`troubles` finds what is wrong from the caches, without a request; `sources` reads the settings of messages;
`telling` is the controller.
"""
