"""Values in the text forms of Kubernetes and Go: cron expressions, durations, quantities, times. Pure."""
