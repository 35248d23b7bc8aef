"""Priorities of rules, one band each."""

DISCOVERY = 65000
"""Discovery packets come to the controller, above all forwarding rules. Ryu's rule, which former versions left on
switches, has priority 65535: it stays beside this one, without a meter, until the switch restarts."""
FLOW = 2000
"""Rules of planned flows: this for all RoCEv2 or TCP packets of two hosts, and one more for each bit of a port."""
UDP_OF_PAIR = 1999
"""All UDP packets of two hosts, RoCEv2 included."""
ALL_OF_PAIR = 1998
"""All IPv4 packets of two hosts."""
LOWEST_FLOW = ALL_OF_PAIR
"""The lowest priority of a rule of planned flows."""
SEGMENTS = 1020
"""Packets to segment ids, above the rules that drop what came down."""
LOWEST_SEGMENT = 100
"""In the table of segments: this, and one more for each bit of an id that is matched."""
HOST = 1000
LAST_CABLE = 1010
"""Classes of packets that come down to a leaf by one of its parallel cables, before ``BELOW``."""
BELOW = 1000
"""Leaves below an aggregation switch: as the hosts of a leaf, above the rules that drop what came down."""
ARP_FROM_SPINE = 960
FROM_SPINE = 950
CLASS_EXCEPTION = 930
CLASS = 920
"""Rules of path classes, where the source port names one."""
LABEL = 910
PREFIX = 900
POD_PREFIX = 890
"""Prefixes of pods, below those of their leaves: the prefix of a leaf is an exception from that of its pod."""
UNKNOWN_ARP = 100
MISS = 0
