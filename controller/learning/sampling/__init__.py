"""Packets that switches sample and send by sFlow: decoding and counting them, and what they tell of flows.

The counts become sightings (``controller.learning.sightings``), as those of hosts and of OpenFlow counters do.
"""
