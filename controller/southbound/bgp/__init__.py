"""What BGP sessions to routers show of a fabric."""
