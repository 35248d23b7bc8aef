"""Packets on the wire: headers that are read and written, and the ports of flows in them."""
