"""Source ports as path classes at routers that are configured once: the static counterpart of OpenFlow rules."""
