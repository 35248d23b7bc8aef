"""Base forwarding: the static rules by which every host reaches every other."""
