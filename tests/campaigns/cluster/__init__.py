"""Replicas of a controller on one lab, faults, and proof of what clients were told.

The values that cross the borders of the modules:

- ``replicas.Replicas``: the processes, and the relays between them and the store, the switches, the clients and each
  other, which can be cut.
- ``history.JobOperation``: one request of a client for a job: when it began and ended, and what it read or wrote.
- ``kinds.ClusterFault``: a fault: how it begins and how it ends.
- ``outcome.FaultRound``: what one fault cost: times and losses.
"""
