"""The core: desired state, network state, reconcile, rules of a mode, and the ports that adapters implement or call."""
