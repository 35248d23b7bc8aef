"""Values of requests, as interfaces read them."""
