"""The switch side: rules and their updates, discovery, hosts and cabling; ``openflow`` holds what depends on Ryu."""
