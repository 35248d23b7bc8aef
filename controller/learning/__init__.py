"""Learning of jobs from what switches and hosts report of their RDMA traffic; pure functions of sightings.

The way of the data: a feeder makes a ``SightingBatch`` (sightings.py); ``Odometers`` (odometer.py) count the bytes of
each QP; ``infer`` (infer.py) makes ``LearnedJob`` of them; ``LearnedLife`` (life.py) decides which of them are there.
"""
