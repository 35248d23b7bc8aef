"""Training frameworks on an emulated fabric: their processes in the namespaces of hosts, measured step by step."""
