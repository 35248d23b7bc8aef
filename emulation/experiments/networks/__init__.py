"""The two kinds of networks of experiments: OpenFlow switches, and routers with agents on hosts."""
