"""Labs of Linux routers with agents on their hosts, what fails and attacks in them, and routers that answer probes."""
