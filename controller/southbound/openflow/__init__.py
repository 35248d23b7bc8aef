"""Installation of rules and observation of switches by OpenFlow: the part of the controller that imports Ryu."""
