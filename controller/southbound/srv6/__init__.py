"""SRv6 with micro segments: paths that hosts write, and the static tables of routers that read them."""
