"""`notify`: the messages that people get. Not here: what they are about (`pinnace.controllers.telling`)."""
