"""The enforcer on OpenFlow: switches are read, changed and verified."""
