"""RoCE-like endpoints: RDMA writes over UDP port 4791, and collectives that run on them (docs/roce.md).

What a caller needs: ``collectives.spec`` and ``run.run_collectives`` to run training collectives on a set of hosts,
``cli.main`` for the commands. Importing this package imports nothing else: endpoints start in a fifth of a second.
"""
