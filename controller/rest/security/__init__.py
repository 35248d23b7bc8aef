"""Access to the HTTP interface: tokens, TLS, origins, peers."""
