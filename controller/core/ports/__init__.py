"""The Protocols between the core and what surrounds it: interfaces, store, switches, tasks and time."""
