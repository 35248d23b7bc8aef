"""RoCE-like endpoints: RDMA writes over UDP port 4791, and collectives that run on them (docs/explanation/roce.md).

The interface for callers is ``collectives.spec`` and ``run.run_collectives`` to run training collectives on a set of
hosts, and ``cli.main`` for the commands. Importing this package imports nothing else, to start endpoints quickly.
"""
