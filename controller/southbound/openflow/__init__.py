"""Rules -> switches, and what switches tell: the part of the controller that speaks OpenFlow (and imports Ryu)."""
