"""The core: desired state, network state, reconcile, tasks of enforcement, and the ports of adapters."""
